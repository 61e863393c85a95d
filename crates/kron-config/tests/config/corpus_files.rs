//! The files under `tests/corpus`: written for these tests in the styles that packages and people
//! have, each with its owner.

use std::path::{Path, PathBuf};

use kron_config::files::{self, Trust};
use kron_config::{CrontabOwner, Source};

/// A crontab of the corpus.
pub(crate) struct File {
    /// Its path inside the corpus, such as `cron.d/acme`.
    pub(crate) name: String,
    pub(crate) owner: CrontabOwner,
    pub(crate) source: Source,
}

/// Where they are.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Every file: the machine's own, those that cron would read in `cron.d`, and users'.
pub(crate) fn all() -> Vec<File> {
    let file = |path: PathBuf, owner: CrontabOwner| File {
        name: path.strip_prefix(root()).expect("inside").display().to_string(),
        owner,
        source: files::read_crontab(&path, Trust::Anybody).expect("a text"),
    };
    let mut all = vec![file(root().join("crontab"), CrontabOwner::System)];
    for path in files::crontabs(&root().join("cron.d")).expect("a directory") {
        all.push(file(path, CrontabOwner::System));
    }
    for path in files::crontabs(&root().join("crontabs")).expect("a directory") {
        let user = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        all.push(file(path, CrontabOwner::User(user)));
    }
    all
}
