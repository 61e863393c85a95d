//! Reading from disk: formats by name, directories in order, and what is no definition.

use std::path::{Path, PathBuf};

use kron_config::files::{self, ReadError, Trust};
use kron_config::{CrontabOwner, Format, Loader, Options};
use kron_core::Category;

/// A directory of its own for one test, removed afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        // Other checkouts may share the directory, and be tested at the same time.
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}{}", mark()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        Scratch(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(&path, content).expect("a file");
        path
    }
}

/// What tells the directories of this process from those of others.
fn mark() -> String {
    format!("-{}", std::process::id())
}

/// A message with the same paths in every run.
fn shown(message: &str) -> String {
    message.replace(env!("CARGO_TARGET_TMPDIR"), "TMP").replace(&mark(), "")
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_name_tells_the_format() {
    let user = |name: &str| Some(Format::Crontab(CrontabOwner::User(name.to_owned())));
    let system = Some(Format::Crontab(CrontabOwner::System));
    for (path, format) in [
        ("jobs.toml", Some(Format::Toml)),
        ("/etc/cron.d/jobs.toml", Some(Format::Toml)),
        ("jobs.krontab", Some(Format::Krontab)),
        ("/etc/crontab", system.clone()),
        ("crontab", system.clone()),
        ("/etc/cron.d/php", system),
        ("/etc/cron.d/php.dpkg-old", None),
        ("/etc/cron.d/php~", None),
        ("/etc/cron.d/my job", None),
        ("ann.crontab", user("ann")),
        ("/var/spool/cron/crontabs/ann", user("ann")),
        ("/var/spool/cron/crontabs/ann.bak", None),
        ("jobs.yaml", None),
        ("jobs", None),
        ("-", None),
        ("/", None),
        ("", None),
    ] {
        assert_eq!(files::format_of(Path::new(path)), format, "{path}");
    }
}

#[test]
fn a_directory_is_its_files_in_name_order() {
    let scratch = Scratch::new("files-directory");
    for name in
        ["20-b.krontab", "10-a.toml", "README.md", ".hidden.toml", "30-c.toml", "sub/x.toml"]
    {
        scratch.file(name, b"");
    }
    let found = files::expand(&scratch.0, None).expect("files");
    let names: Vec<_> = found
        .iter()
        .map(|(path, format)| {
            (path.file_name().and_then(|name| name.to_str()).unwrap_or(""), format)
        })
        .collect();
    assert_eq!(
        names,
        [
            ("10-a.toml", &Format::Toml),
            ("20-b.krontab", &Format::Krontab),
            ("30-c.toml", &Format::Toml)
        ]
    );
    // A format that is given holds for every file that is not hidden.
    let found = files::expand(&scratch.0, Some(&Format::Krontab)).expect("files");
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|(_, format)| *format == Format::Krontab));
    let one = files::expand(&scratch.0.join("README.md"), Some(&Format::Toml)).expect("one file");
    assert_eq!(one.len(), 1);
    scratch.file("cron.d/.placeholder", b"");
    assert!(files::expand(&scratch.0.join("cron.d"), None).expect("no files").is_empty());
    let stdin = files::expand(Path::new("-"), Some(&Format::Toml)).expect("standard input");
    assert_eq!(stdin[0].0, Path::new("-"));
}

#[track_caller]
fn check_refused(result: Result<impl Sized, ReadError>, message: &str, category: Category) {
    let error = result.err().expect("an error");
    let shown = shown(&error.to_string());
    assert_eq!(shown, message);
    assert_eq!(error.category(), category);
}

#[test]
fn what_cannot_be_read_says_so() {
    let scratch = Scratch::new("files-refused");
    let empty = scratch.0.join("empty");
    std::fs::create_dir(&empty).expect("a directory");
    let missing = scratch.0.join("missing.toml");
    let odd = scratch.file("jobs.yaml", b"");
    let configuration = Category::Configuration;
    check_refused(
        files::read(&missing),
        "cannot read `TMP/files-refused/missing.toml`",
        configuration,
    );
    check_refused(
        files::expand(&missing, None),
        "cannot read `TMP/files-refused/missing.toml`",
        configuration,
    );
    check_refused(files::read(&empty), "`TMP/files-refused/empty` is not a file", configuration);
    check_refused(
        files::expand(&empty, None),
        "`TMP/files-refused/empty` has no file that ends in `.toml`, `.krontab` or `.crontab`",
        configuration,
    );
    check_refused(
        files::expand(&odd, None),
        "cannot tell how `TMP/files-refused/jobs.yaml` is written",
        configuration,
    );
    check_refused(
        files::expand(Path::new("-"), None),
        "cannot tell how `-` is written",
        configuration,
    );
}

#[test]
fn what_is_not_utf_8_is_named_by_line_and_column() {
    let scratch = Scratch::new("files-bytes");
    for (bytes, line, column) in [
        (&b"\xff"[..], 1, 1),
        (b"ab\n\xc3\xa9\xff", 2, 3),
        (b"ab\r\n\r\nc\xe2\x82", 3, 2),
        (b"\xef\xbb\xbf\x80", 1, 4),
    ] {
        let path = scratch.file("bytes.toml", bytes);
        let message = format!(
            "`TMP/files-bytes/bytes.toml` is not UTF-8: line {line} has an invalid byte at column {column}"
        );
        check_refused(files::read(&path), &message, Category::Configuration);
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let scratch = Scratch::new("files-large");
    let path = scratch.file("large.toml", b"");
    let file = std::fs::File::options().write(true).open(&path).expect("a file");
    file.set_len(64 * 1024 * 1024 + 1).expect("a sparse file");
    check_refused(
        files::read(&path),
        "`TMP/files-large/large.toml` is larger than 64 MiB",
        Category::Configuration,
    );
    file.set_len(1024).expect("a smaller file");
    assert_eq!(files::read(&path).expect("a text of zeros").text().len(), 1024);
}

#[test]
fn a_byte_order_mark_is_not_text() {
    let scratch = Scratch::new("files-bom");
    let path = scratch.file("bom.toml", b"\xef\xbb\xbf[job.a]\n");
    let source = files::read(&path).expect("a text");
    assert_eq!(source.text(), "[job.a]\n");
    assert_eq!((source.location(1).line, source.location(1).column), (1, 2));
}

#[cfg(unix)]
#[test]
fn a_named_pipe_does_not_make_anybody_wait() {
    let scratch = Scratch::new("files-pipe");
    let path = scratch.0.join("pipe.toml");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
    assert!(made.success());
    check_refused(
        files::read(&path),
        "`TMP/files-pipe/pipe.toml` is not a file",
        Category::Configuration,
    );
    // A directory passes it over.
    scratch.file("a.toml", b"");
    assert_eq!(files::expand(&scratch.0, None).expect("files").len(), 1);
    // What is already open is read.
    assert_eq!(files::read(Path::new("/dev/null")).expect("nothing").text(), "");
}

#[test]
fn cron_reads_files_of_plain_names() {
    let scratch = Scratch::new("files-cron");
    for name in [
        "jobs/php",
        "jobs/0hourly",
        "jobs/with_under-score",
        "jobs/php.dpkg-dist",
        "jobs/php~",
        "jobs/#php#",
        "jobs/.placeholder",
        "jobs/my job",
        "jobs/jobs.toml",
        "jobs/sub/inner",
    ] {
        scratch.file(name, b"");
    }
    std::os::unix::fs::symlink("php", scratch.0.join("jobs/linked")).expect("a link");
    std::os::unix::fs::symlink("nowhere", scratch.0.join("jobs/dangling")).expect("a link");
    let found = files::crontabs(&scratch.0.join("jobs")).expect("files");
    let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    assert_eq!(names, ["0hourly", "dangling", "linked", "php", "with_under-score"]);
    // A file that is named may be called anything, and a directory may be empty.
    let odd = scratch.file("my.crontab.txt", b"");
    assert_eq!(files::crontabs(&odd).expect("itself"), [odd]);
    std::fs::create_dir(scratch.0.join("none")).expect("a directory");
    assert!(files::crontabs(&scratch.0.join("none")).expect("no files").is_empty());
    check_refused(
        files::crontabs(&scratch.0.join("missing")),
        "cannot read `TMP/files-cron/missing`",
        Category::Configuration,
    );
}

#[test]
fn what_others_could_have_written_is_not_run() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let scratch = Scratch::new("files-trust");
    let path = scratch.file("tab", b"* * * * * root x\n");
    let set_mode = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let own = path.metadata().expect("a file").uid();
    for mode in [0o644, 0o600, 0o400, 0o755] {
        set_mode(mode);
        assert!(files::read_crontab(&path, Trust::RootAnd(own)).is_ok(), "{mode:o}");
    }
    for mode in [0o664, 0o646, 0o666, 0o620, 0o602] {
        set_mode(mode);
        let message = format!(
            "`TMP/files-trust/tab` may be written by others than its owner: its mode is {mode:04o}"
        );
        let read = files::read_crontab(&path, Trust::RootAnd(own));
        check_refused(read, &message, Category::Validation);
        assert!(files::read_crontab(&path, Trust::Anybody).is_ok(), "{mode:o}");
    }
    set_mode(0o644);
    // Root gives the file away; anybody else has one that another user does not trust.
    let stranger = if own == 0 { 65_534 } else { own };
    std::os::unix::fs::chown(&path, Some(stranger), None).expect("an owner");
    assert!(files::read_crontab(&path, Trust::RootAnd(stranger)).is_ok());
    let message =
        format!("`TMP/files-trust/tab` belongs to user {stranger}, who may not say what runs here");
    for trusted in [0, stranger + 1] {
        let read = files::read_crontab(&path, Trust::RootAnd(trusted));
        check_refused(read, &message, Category::Validation);
    }
    // Left out, it spoils nothing else.
    let mut loader = Loader::new(Options::default());
    let error = files::read_crontab(&path, Trust::RootAnd(0)).expect_err("not trusted");
    loader.leave_out(&path, &error);
    let loaded = loader.finish();
    assert!(loaded.is_usable() && loaded.has_errors());
    let shown = shown(&loaded.diagnostics[0].to_string());
    assert_eq!(
        shown,
        format!(
            "error: {message}; the file is left out\n--> TMP/files-trust/tab:1:1\n \
             = help: `chown root TMP/files-trust/tab`, if you trust what is in it"
        )
    );
}

#[test]
fn a_crontab_may_have_bytes_that_are_no_text() {
    let scratch = Scratch::new("files-latin");
    let path = scratch.file("tab", b"# caf\xe9\n0 1 * * * root x\n");
    let source = files::read_crontab(&path, Trust::Anybody).expect("a text");
    assert_eq!(source.text(), "# caf\u{fffd}\n0 1 * * * root x\n");
    let missing = scratch.0.join("missing");
    check_refused(
        files::read_crontab(&missing, Trust::Anybody),
        "cannot read `TMP/files-latin/missing`",
        Category::Configuration,
    );
}
