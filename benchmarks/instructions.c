/* A plugin of QEMU that counts the instructions a program executes: built and read by instructions.py.
 * QEMU's header is in no Debian package, so what is used of it is declared here (its API of version 1). */
#include <stdint.h>
#include <stdio.h>

struct qemu_plugin_tb;
typedef uint64_t Id;
void qemu_plugin_register_vcpu_tb_trans_cb(Id, void (*)(Id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
void qemu_plugin_register_atexit_cb(Id, void (*)(Id, void *), void *);
long qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);

enum { ADD = 0 };
static uint64_t executed;

static void count(Id id, struct qemu_plugin_tb *block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, ADD, &executed, qemu_plugin_tb_n_insns(block));
}

static void tell(Id id, void *unused) {
  (void)id, (void)unused;
  fprintf(stderr, "\ninstructions %llu\n", (unsigned long long)executed);
}

int qemu_plugin_version = 1;

int qemu_plugin_install(Id id, const void *info, int count_of, char **arguments) {
  (void)info, (void)count_of, (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, count);
  qemu_plugin_register_atexit_cb(id, tell, NULL);
  return 0;
}
