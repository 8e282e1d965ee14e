#!/usr/bin/env bash
# Continues from the checkpoint of pretrain.sh, with the old data and more: only what is new is prepared,
# and training starts at the very next row.
#   DATASET="corpus.jsonl more.jsonl" ./examples/pretrain_cont.sh --bf16
set -euo pipefail
cd "$(dirname "$0")/.."

DATASET=${DATASET:-python/tokenmill/data/sample.jsonl}
TOKENIZER=${TOKENIZER:-outputs/tokenizer}
OUTPUT=${OUTPUT:-outputs/pretrain}
LAUNCH=${LAUNCH:-torchrun --nproc_per_node=${NPROC:-2}}
TOKENMILL=${TOKENMILL:-tokenmill}

eval "$($TOKENMILL config env)"
# shellcheck disable=SC2086 # several files in DATASET are several arguments
exec $LAUNCH examples/pretrain.py \
  --mode continue \
  --dataset $DATASET \
  --tokenizer_path "$TOKENIZER" \
  --output_dir "$OUTPUT" \
  --num_proc "${DATASET_NUM_PROC:-1}" \
  --packing "$@"
