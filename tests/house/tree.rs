//! The tree that rules are held against: paths, and the text of the files that people write.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Folders that hold nothing that people write: history, build products, inputs for fuzzing.
const SKIPPED_FOLDERS: [&str; 5] = [".git", "target", "artifacts", "corpus", "coverage"];

/// Deepest folder below the root that is read; a link that leads in a circle ends here.
const DEPTH_MAX: usize = 12;

/// Every file of the repository, by its path from the root, written with `/`.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Text, empty where the file is not text.
    files: BTreeMap<String, String>,
}

impl Tree {
    /// The repository that this test was built from.
    pub(crate) fn read() -> Self {
        let mut tree = Self::default();
        tree.read_folder(Path::new(env!("CARGO_MANIFEST_DIR")), "", 0);
        tree
    }

    /// A tree of made-up files.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let owned = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Self { files: owned.collect() }
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str, depth: usize) {
        assert!(depth <= DEPTH_MAX, "`{}` lies too deep", folder.display());
        for entry in fs::read_dir(folder).expect("a folder of the repository is readable") {
            let entry = entry.expect("an entry of the repository is readable");
            let name = entry.file_name().into_string().expect("a file name is UTF-8");
            let path = entry.path();
            if !path.is_dir() {
                let bytes = fs::read(&path).unwrap_or_default();
                let text = String::from_utf8(bytes).unwrap_or_default();
                self.files.insert(format!("{prefix}{name}"), text);
            } else if !SKIPPED_FOLDERS.contains(&name.as_str()) {
                self.read_folder(&path, &format!("{prefix}{name}/"), depth + 1);
            }
        }
    }

    /// The text at `path`, if there is such a file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// A file, or a folder with a file in it, has this path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.contains_key(path) || self.files.keys().any(|file| file.starts_with(&folder))
    }

    /// Path and text of every file whose name ends in one of `endings`.
    pub(crate) fn ending_in(&self, endings: &[&str]) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(|(path, _)| endings.iter().any(|ending| path.ends_with(ending)))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

#[test]
fn reads_this_file_and_its_folder_and_no_build_product() {
    let tree = Tree::read();
    assert_eq!(tree.text("tests/house/tree.rs"), Some(include_str!("tree.rs")));
    assert!(tree.contains("tests/house"));
    assert!(!tree.contains("tests/hous"));
    assert!(!tree.contains("target"));
}
