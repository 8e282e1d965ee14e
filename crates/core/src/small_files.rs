//! Many small files in one call: their bytes, flat, and the size, mtime and inode of each.
//!
//! Only for files without problems. One that cannot be opened, is not a plain file or changes while it is read gets no
//! bytes here: the caller reads it on its own, and reports what is wrong with it.

use std::path::Path;

/// What was found, in the order of the paths.
#[derive(Debug, Default)]
pub struct Found {
    /// The bytes of all files, one after another.
    pub data: Vec<u8>,
    /// Where each file begins in `data`, and the end of the last.
    pub offsets: Vec<i64>,
    /// Size, mtime in nanoseconds and inode of each file; -1 three times for one that the caller must read itself.
    pub stats: Vec<i64>,
}

/// Reads up to `most` bytes of each file.
pub fn read_small<P: AsRef<Path>>(paths: &[P], most: usize) -> Found {
    let mut found = Found { offsets: vec![0], ..Found::default() };
    for path in paths {
        let start = found.data.len();
        let stat = read_one(path.as_ref(), most, &mut found.data).unwrap_or_else(|| {
            found.data.truncate(start);
            [-1; 3]
        });
        found.offsets.push(found.data.len() as i64);
        found.stats.extend(stat);
    }
    found
}

#[cfg(unix)]
fn read_one(path: &Path, most: usize, data: &mut Vec<u8>) -> Option<[i64; 3]> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;

    // Without it, opening a pipe would wait for a writer; a plain file ignores the flag.
    let mut options = std::fs::File::options();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    let before = stat_of(&file.metadata().ok()?)?;
    let wanted = most.min(usize::try_from(before[0]).ok()?);
    let start = data.len();
    data.reserve(wanted);
    file.take(wanted as u64).read_to_end(data).ok()?;
    let after = stat_of(&std::fs::metadata(path).ok()?)?;
    (data.len() - start == wanted && before == after).then_some(before)
}

#[cfg(unix)]
fn stat_of(metadata: &std::fs::Metadata) -> Option<[i64; 3]> {
    use std::os::unix::fs::MetadataExt;

    let nanoseconds =
        metadata.mtime().checked_mul(1_000_000_000)?.checked_add(metadata.mtime_nsec())?;
    let size = i64::try_from(metadata.len()).ok()?;
    let inode = i64::try_from(metadata.ino()).ok()?;
    metadata.is_file().then_some([size, nanoseconds, inode])
}

/// Without inodes, the caller reads every file itself.
#[cfg(not(unix))]
fn read_one(_path: &Path, _most: usize, _data: &mut Vec<u8>) -> Option<[i64; 3]> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::read_small;

    #[test]
    fn reads_what_is_there_and_leaves_the_rest_to_the_caller() {
        let folder = std::env::temp_dir().join(format!("tokenmill-small-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a"), "one").unwrap();
        std::fs::write(folder.join("b"), "").unwrap();
        std::fs::write(folder.join("c"), "three").unwrap();
        let paths: Vec<_> = ["a", "gone", ".", "b", "c"].map(|name| folder.join(name)).into();
        let found = read_small(&paths, 4);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.data, b"onethre");
        assert_eq!(found.offsets, [0, 3, 3, 3, 3, 7]);
        let sizes: Vec<i64> = found.stats.chunks(3).map(|stat| stat[0]).collect();
        assert_eq!(sizes, [3, -1, -1, 0, 5]);
    }
}
