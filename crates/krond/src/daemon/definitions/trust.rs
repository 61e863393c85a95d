//! Whose hand may be in the definitions of a daemon that runs as root.
//!
//! Whoever writes a job file decides what runs as root, so such a daemon takes no file that
//! everybody may write, nor one from a directory in which everybody may put another in its place,
//! as cron does not. Where a group may write, or another user owns it, somebody may have meant
//! that; it is told. A daemon of anybody else runs everything as that user, and is not choosy.
//!
//! What is looked at is the file itself, wherever links lead, and the directories that name it.
//! Whoever may write further up is trusted, as is whoever exchanges a file between the look and
//! the reading: both could only do so from a directory that was found sound.

use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use kron_config::Diagnostic;
use kron_core::{Category, Finding, Severity};

/// Everybody may write.
const WRITABLE_BY_ALL: u32 = 0o002;
/// The group may write.
const WRITABLE_BY_GROUP: u32 = 0o020;
/// Only owners remove and rename what is in the directory.
const STICKY: u32 = 0o1000;
/// The bits that are shown.
const MODE_BITS: u32 = 0o7777;
const ROOT: u32 = 0;

/// Looks at files and directories, and keeps what is to be said about them.
#[derive(Debug)]
pub(super) struct Trust {
    /// Nobody's definitions are doubted unless the daemon is root.
    is_root: bool,
    looked_at: HashSet<PathBuf>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl Trust {
    /// For this process.
    pub(super) fn new() -> Trust {
        Trust::of(nix::unistd::geteuid().as_raw())
    }

    fn of(uid: u32) -> Trust {
        Trust { is_root: uid == ROOT, looked_at: HashSet::new(), diagnostics: Vec::new() }
    }

    /// Whether anything was refused.
    pub(super) fn has_refused(&self) -> bool {
        self.diagnostics.iter().any(is_error)
    }

    /// Looks at a path that the daemon was given, if it is a directory.
    pub(super) fn look_at_source(&mut self, path: &Path) {
        let Some(metadata) = self.metadata(path).filter(Metadata::is_dir) else { return };
        if let Ok(directory) = path.canonicalize() {
            self.look_at_directory(path, directory, &metadata);
        }
        self.doubt(path, &metadata);
    }

    /// Whether a file may define what runs.
    pub(super) fn admits(&mut self, path: &Path) -> bool {
        let Some(metadata) = self.metadata(path) else { return true };
        let before = self.diagnostics.len();
        if is_open(&metadata) {
            self.refuse(path, &metadata);
        } else {
            self.doubt(path, &metadata);
        }
        let named_by = directory_of(path).canonicalize().ok();
        let lies_in = path.canonicalize().ok().map(|target| directory_of(&target).to_owned());
        let lies_in = lies_in.filter(|directory| Some(directory) != named_by.as_ref());
        for directory in named_by.into_iter().chain(lies_in) {
            self.look_at_surroundings(path, &metadata, directory);
        }
        !self.diagnostics[before..].iter().any(is_error)
    }

    /// What is there, if it is to be looked at. What cannot be seen cannot be read either, which
    /// is told by whoever reads it; standard input has no name.
    fn metadata(&self, path: &Path) -> Option<Metadata> {
        (self.is_root && path != Path::new("-")).then(|| path.metadata().ok()).flatten()
    }

    fn look_at_surroundings(&mut self, path: &Path, file: &Metadata, directory: PathBuf) {
        let Some(metadata) = self.metadata(&directory) else { return };
        // In such a directory nobody puts anything in the place of root's files, which does not
        // make everybody's own welcome.
        if is_open(&metadata) && is_sticky(&metadata) && file.uid() != ROOT {
            let (file_shown, owner) = (path.display(), file.uid());
            let message = format!(
                "`{file_shown}` belongs to user {owner}, and everybody may put files into `{}`",
                directory.display()
            );
            self.error(message, format!("`chown root {file_shown}` if it is meant to be there"));
        }
        self.look_at_directory(&directory.clone(), directory, &metadata);
    }

    /// Refuses a directory, once, in which everybody may put a file in the place of another.
    fn look_at_directory(&mut self, shown: &Path, directory: PathBuf, metadata: &Metadata) {
        let is_new = self.looked_at.insert(directory);
        if is_new && is_open(metadata) && !is_sticky(metadata) {
            self.refuse(shown, metadata);
        }
    }

    fn refuse(&mut self, path: &Path, metadata: &Metadata) {
        let message = format!("everybody may write `{}`: {}", path.display(), mode_of(metadata));
        self.error(
            message,
            format!("`chmod o-w {}`; whoever writes it decides what runs as root", path.display()),
        );
    }

    fn error(&mut self, message: String, help: String) {
        let finding = Finding::error(Category::Configuration, 0..0, message).help(help);
        self.diagnostics.push(Diagnostic::without_place(finding));
    }

    fn doubt(&mut self, path: &Path, metadata: &Metadata) {
        let path = path.display();
        if metadata.uid() != ROOT {
            let message = format!("`{path}` belongs to user {}, not to root", metadata.uid());
            let help = format!("`chown root {path}`; its owner decides what runs as root");
            self.warning(message, help);
        }
        if metadata.mode() & WRITABLE_BY_GROUP != 0 {
            let group = metadata.gid();
            let message = format!("group {group} may write `{path}`: {}", mode_of(metadata));
            let help = format!("`chmod g-w {path}`; whoever writes it decides what runs as root");
            self.warning(message, help);
        }
    }

    fn warning(&mut self, message: String, help: String) {
        let finding = Finding {
            category: Category::Configuration,
            ..Finding::warning(0..0, message).help(help)
        };
        self.diagnostics.push(Diagnostic::without_place(finding));
    }
}

fn is_error(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Error
}

fn is_open(metadata: &Metadata) -> bool {
    metadata.mode() & WRITABLE_BY_ALL != 0
}

fn is_sticky(metadata: &Metadata) -> bool {
    metadata.mode() & STICKY != 0
}

fn mode_of(metadata: &Metadata) -> String {
    format!("its mode is {:04o}", metadata.mode() & MODE_BITS)
}

/// The directory that names a path.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use kron_testkit::needs::{Need, left_out};

    use super::*;

    const SOMEBODY: u32 = 65_534;

    /// A directory with a file of root's in it.
    struct Place(tempfile::TempDir);

    impl Place {
        /// `None` where the test is left out: only root makes files of root and of others.
        fn new() -> Option<Place> {
            if left_out("definitions that others could have written", &[Need::Root]) {
                return None;
            }
            let place = Place(tempfile::tempdir().unwrap());
            place.mode("", 0o755);
            std::fs::create_dir(place.path("kron")).unwrap();
            place.mode("kron", 0o755);
            std::fs::write(place.path("kron/jobs.toml"), "").unwrap();
            place.mode("kron/jobs.toml", 0o644);
            Some(place)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn mode(&self, name: &str, mode: u32) {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(self.path(name), permissions).unwrap();
        }

        fn give_away(&self, name: &str) {
            chown(self.path(name), Some(SOMEBODY), None).unwrap();
        }

        /// Errors and warnings about the directory and its file, without the place itself.
        fn said(&self, source: &str, file: &str) -> (Vec<String>, Vec<String>) {
            let mut trust = Trust::of(ROOT);
            trust.look_at_source(&self.path(source));
            let admitted = trust.admits(&self.path(file));
            let prefix = format!("{}/", self.0.path().display());
            let (errors, warnings): (Vec<_>, Vec<_>) =
                trust.diagnostics.iter().partition(|it| is_error(it));
            assert_eq!(trust.has_refused(), !errors.is_empty());
            assert!(admitted || !errors.is_empty());
            assert!(trust.diagnostics.iter().all(|it| it.help.is_some()));
            let said = |list: Vec<&Diagnostic>| {
                list.into_iter().map(|it| it.message.replace(&prefix, "")).collect()
            };
            (said(errors), said(warnings))
        }
    }

    fn check(prepare: impl Fn(&Place), errors: &[&str], warnings: &[&str]) {
        let Some(place) = Place::new() else { return };
        prepare(&place);
        let (refused, doubted) = place.said("kron", "kron/jobs.toml");
        assert_eq!(refused, errors);
        assert_eq!(doubted, warnings);
    }

    #[test]
    fn what_everybody_may_write_is_refused() {
        check(|_| {}, &[], &[]);
        check(
            |place| place.mode("kron/jobs.toml", 0o666),
            &["everybody may write `kron/jobs.toml`: its mode is 0666"],
            &[],
        );
        check(
            |place| place.mode("kron/jobs.toml", 0o646),
            &["everybody may write `kron/jobs.toml`: its mode is 0646"],
            &[],
        );
        check(
            |place| place.mode("kron", 0o757),
            &["everybody may write `kron`: its mode is 0757"],
            &[],
        );
        check(|place| place.mode("kron", 0o1757), &[], &[]);
        check(
            |place| {
                place.mode("kron", 0o1757);
                place.give_away("kron/jobs.toml");
            },
            &["`kron/jobs.toml` belongs to user 65534, and everybody may put files into `kron`"],
            &["`kron/jobs.toml` belongs to user 65534, not to root"],
        );
    }

    #[test]
    fn what_somebody_may_write_is_told() {
        check(
            |place| place.mode("kron/jobs.toml", 0o664),
            &[],
            &[&format!("group {} may write `kron/jobs.toml`: its mode is 0664", group())],
        );
        check(
            |place| place.mode("kron", 0o775),
            &[],
            &[&format!("group {} may write `kron`: its mode is 0775", group())],
        );
        check(
            |place| place.give_away("kron/jobs.toml"),
            &[],
            &["`kron/jobs.toml` belongs to user 65534, not to root"],
        );
        check(|place| place.give_away("kron"), &[], &["`kron` belongs to user 65534, not to root"]);
    }

    fn group() -> u32 {
        nix::unistd::getegid().as_raw()
    }

    #[test]
    fn links_hide_nothing() {
        let Some(place) = Place::new() else { return };
        std::fs::create_dir(place.path("open")).unwrap();
        std::fs::write(place.path("open/real.toml"), "").unwrap();
        place.mode("open/real.toml", 0o644);
        symlink(place.path("open/real.toml"), place.path("kron/link.toml")).unwrap();
        assert_eq!(place.said("kron", "kron/link.toml"), (vec![], vec![]));
        place.mode("open", 0o777);
        let (errors, _) = place.said("kron", "kron/link.toml");
        assert_eq!(errors, ["everybody may write `open`: its mode is 0777"]);
        // A file that was given by itself is named by a directory all the same.
        let (errors, _) = place.said("kron/link.toml", "open/real.toml");
        assert_eq!(errors, ["everybody may write `open`: its mode is 0777"]);
        place.mode("open", 0o755);
        place.mode("open/real.toml", 0o666);
        let (errors, _) = place.said("kron", "kron/link.toml");
        assert_eq!(errors, ["everybody may write `kron/link.toml`: its mode is 0666"]);
    }

    #[test]
    fn only_root_is_choosy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.toml");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let mut trust = Trust::of(1_000);
        trust.look_at_source(dir.path());
        assert!(trust.admits(&path));
        assert_eq!(trust.diagnostics, []);
        let mut trust = Trust::of(ROOT);
        assert!(!trust.admits(&path));
        assert!(trust.admits(Path::new("-")), "standard input is nobody's file");
    }
}
