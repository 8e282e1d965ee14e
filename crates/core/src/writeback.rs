//! Starts writing the bytes of a file to the disk before anybody has to wait for them.

/// Asks the system to write `length` bytes from `start` of an open file to the disk, and does not wait.
///
/// Nothing is durable before the file is synced, but most of that work is then done. If the system refuses, only time
/// is lost; an error of the disk is kept for that sync, which reports it.
#[cfg(target_os = "linux")]
pub fn begin(file: i32, start: u64, length: u64) {
    let (Ok(start), Ok(length)) = (i64::try_from(start), i64::try_from(length)) else {
        return;
    };
    // SAFETY: a call with plain numbers; without a flag that waits it neither takes nor clears an error that
    // a sync would report.
    unsafe { libc::sync_file_range(file, start, length, libc::SYNC_FILE_RANGE_WRITE) };
}

/// On other systems the sync does all of the work.
#[cfg(not(target_os = "linux"))]
pub fn begin(_file: i32, _start: u64, _length: u64) {}
