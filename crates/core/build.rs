//! Hashes the core's own sources, so that tables kept by another build are never used.

use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new("src");
    println!("cargo:rerun-if-changed=src");
    let mut files = Vec::new();
    list(root, &mut files);
    files.sort();
    // FNV-1a: not for security, only a different number for different sources.
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for file in files {
        let content = std::fs::read(&file).unwrap_or_default();
        let name = file.to_string_lossy().replace('\\', "/");
        for byte in name.bytes().chain([0]).chain(content).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
    println!("cargo:rustc-env=TOKENMILL_SOURCES={hash:016x}");
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push(path);
        }
    }
}
