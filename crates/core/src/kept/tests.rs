use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::{Folder, Key};
use crate::bpe::Tokens;

/// An empty folder that goes with the test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("tokenmill-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tokens() -> Tokens {
    (0..300u32).map(|id| (format!("token {id}"), id)).collect()
}

#[test]
fn what_was_kept_comes_back_for_its_own_key_only() {
    let scratch = Scratch::new("kept");
    let folder = Folder::new(&scratch.0);
    let key = Key::new("tokens", [&b"a"[..], b"bc"]);
    assert!(folder.get::<Tokens>(&key).is_none());
    folder.put(&key, &tokens());
    assert_eq!(folder.get(&key), Some(tokens()));
    for other in [
        Key::new("tokens", [&b"ab"[..], b"c"]),
        Key::new("others", [&b"a"[..], b"bc"]),
    ] {
        assert!(folder.get::<Tokens>(&other).is_none());
        // Not even where somebody gives it the other's name.
        let _ = fs::copy(folder.path_of(&key), folder.path_of(&other));
        assert!(folder.get::<Tokens>(&other).is_none());
    }
}

#[test]
fn a_file_with_any_byte_changed_or_missing_is_none() {
    let scratch = Scratch::new("damaged");
    let folder = Folder::new(&scratch.0);
    let key = Key::new("tokens", []);
    folder.put(&key, &tokens());
    let path = folder.path_of(&key);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, &bad).unwrap();
        assert!(folder.get::<Tokens>(&key).is_none(), "byte {at}");
    }
    for length in (0..good.len()).step_by(7) {
        fs::write(&path, &good[..length]).unwrap();
        assert!(folder.get::<Tokens>(&key).is_none(), "{length} bytes");
    }
    fs::write(&path, [&good[..], b"x"].concat()).unwrap();
    assert!(folder.get::<Tokens>(&key).is_none());
    // A length that would take all memory.
    let mut bad = good.clone();
    bad[56..64].fill(0x7F);
    fs::write(&path, &bad).unwrap();
    assert!(folder.get::<Tokens>(&key).is_none());
    folder.put(&key, &tokens());
    assert_eq!(folder.get(&key), Some(tokens()));
}

#[test]
fn the_longest_unused_goes_first_and_leftovers_go_too() {
    let scratch = Scratch::new("bounded");
    let mut folder = Folder::new(&scratch.0);
    let keys = [b"0", b"1", b"2"].map(|name| Key::new("tokens", [&name[..]]));
    let long_ago = SystemTime::now() - Duration::from_secs(1_000_000);
    for (key, age) in keys.iter().zip([2, 3, 1]) {
        folder.put(key, &tokens());
        let file = fs::File::options().write(true).open(folder.path_of(key));
        let used = long_ago - Duration::from_secs(age);
        file.unwrap().set_modified(used).unwrap();
    }
    let leftover = scratch.0.join(".tmp-1-1-1");
    fs::write(&leftover, b"half").unwrap();
    let file = fs::File::options().write(true).open(&leftover).unwrap();
    file.set_modified(long_ago).unwrap();
    // Reading marks a file as used.
    assert!(folder.get::<Tokens>(&keys[1]).is_some());
    let size = fs::metadata(folder.path_of(&keys[0])).unwrap().len();
    folder.most = 2 * size;
    let last = Key::new("tokens", [&b"3"[..]]);
    folder.put(&last, &tokens());
    let held = [&keys[0], &keys[1], &keys[2], &last].map(|key| folder.path_of(key).exists());
    assert_eq!(held, [false, true, false, true]);
    assert_eq!(scratch.files().len(), 2);
}

#[test]
fn a_folder_that_cannot_exist_is_no_error() {
    let scratch = Scratch::new("no-folder");
    fs::write(&scratch.0, b"a file").unwrap();
    let folder = Folder::new(scratch.0.join("below"));
    let key = Key::new("tokens", []);
    folder.put(&key, &tokens());
    assert!(folder.get::<Tokens>(&key).is_none());
    fs::remove_file(&scratch.0).unwrap();
}
