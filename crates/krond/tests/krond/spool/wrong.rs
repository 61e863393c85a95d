//! What cannot be a task: each is set aside with its report, nothing of it is executed, and it keeps
//! nobody waiting.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use kron_testkit::files::{copy_program, read};
use kron_testkit::krond::Krond;
use kron_testkit::needs::{Need, left_out, preloaded_clock};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use crate::new_world_in_memory;
use crate::spool::site::{Site as _, handler, spool, text, world};

const RAN: &str = "echo $KRON_TASK_ID >> {dir}/ran";
/// Somebody who is not root.
const NOBODY: u32 = 65_534;

fn whole(id: &str) -> String {
    text(id, "t", &Value::Null)
}

#[test]
fn what_is_no_plain_file_of_a_task_is_set_aside_and_good_tasks_go_on() {
    if left_out("files of others", &[Need::Root]) {
        return;
    }
    let world = world("", &handler("t", RAN));
    let mut krond = world.start();
    let secret = world.witness("secret");
    fs::write(&secret, whole("link")).unwrap();
    symlink(&secret, world.pending("link.json")).unwrap();
    symlink("/nowhere", world.pending("dangling.json")).unwrap();
    let directory = world.witness("directory.json");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("inside"), "kept").unwrap();
    fs::rename(directory, world.pending("directory.json")).unwrap();
    let _socket = UnixListener::bind(world.pending("socket.json")).unwrap();
    mkfifo(&world.pending("fifo.json"), Mode::S_IRWXU).unwrap();
    let with_mode = |name: &str, mode: u32, owner: u32| {
        let draft = world.witness(name);
        fs::write(&draft, whole(name.strip_suffix(".json").unwrap())).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(mode)).unwrap();
        chown(&draft, Some(owner), None).unwrap();
        fs::rename(draft, world.pending(name)).unwrap();
    };
    with_mode("writable.json", 0o666, 0);
    with_mode("strange.json", 0o600, NOBODY);
    world.put("good", "t");
    world.completed("good");
    for (name, reason) in [
        ("link.json", "it is a symbolic link, and links are not followed"),
        ("dangling.json", "it is a symbolic link, and links are not followed"),
        ("directory.json", "it is a directory, not a regular file"),
        ("socket.json", "it is a socket, not a regular file"),
        ("fifo.json", "it is a "),
        ("writable.json", "its permissions are 0666, not 0664"),
        ("strange.json", "it belongs to user 65534, whose files are not accepted here"),
    ] {
        let told = world.rejected(name);
        assert!(told.starts_with(reason), "{name}: {told}");
    }
    assert_eq!(read(&world.spool_path("rejected/directory.json/inside")).unwrap(), "kept");
    assert!(secret.exists(), "what a link points to is nobody's business");
    assert_eq!(world.testimony("ran"), ["good"]);
    let told = krond.heard("spool_rejected", 7);
    assert_eq!(told.len(), 7, "{told:?}");
    let told = told.iter().find(|line| line["name"] == "strange.json").unwrap();
    assert_eq!((&told["error_type"], &told["spool"]), (&json!("ValidationError"), &json!("s")));
    assert!(told["path"].as_str().unwrap().ends_with("/rejected/strange.json"), "{told}");
    krond.stop();
}

#[test]
fn what_is_no_json_of_a_task_is_set_aside_and_good_tasks_go_on() {
    let world = world("workers = 2", &handler("t", RAN));
    let krond = world.start();
    let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
    let huge = "x".repeat(300 * 1024);
    let with = |id: &str, field: &str, value: Value| {
        let mut task: Value = serde_json::from_str(&whole(id)).unwrap();
        task[field] = value;
        task.to_string()
    };
    let cases = [
        ("empty", String::new(), "its JSON ends before it is complete"),
        ("cut", whole("cut")[..50].to_owned(), "its JSON ends before it is complete"),
        ("broken", "{ no json }".to_owned(), "it is not the JSON of a task: "),
        ("list", "[]".to_owned(), "it is not the JSON of a task: "),
        ("two", whole("two") + "{}", "it is not the JSON of a task: "),
        ("huge", text("huge", "t", &json!(huge)), "it has more than 262144 bytes"),
        ("deep", whole("deep").replace("null", &deep), "its JSON is nested more than 64 deep"),
        (
            "running",
            with("running", "state", json!("RUNNING")),
            "its `state` is `RUNNING`, but it is in `pending/`",
        ),
        ("strange", with("strange", "state", json!("DONE")), "its `state` is `DONE`"),
        ("other", whole("another"), "its `taskId` is `another`, which is not its file's name"),
        ("path", whole("../../../etc/passwd"), "its `taskId` is `../../../etc/passwd`"),
        ("number", with("number", "taskId", json!(7)), "`taskId`: "),
        ("none", "{}".to_owned(), "it has no `taskId`"),
        ("when", with("when", "createdAt", json!("yesterday")), "`createdAt`: "),
        ("untyped", with("untyped", "payload", json!({ "data": 1 })), "it has no `payload.type`"),
        ("typed", with("typed", "payload", json!({ "type": "../t" })), "`payload.type`: "),
        ("soon", with("soon", "notBefore", json!(5)), "`notBefore`: "),
        ("often", with("often", "attempts", json!(-1)), "`attempts`: "),
    ];
    for (id, text, _) in &cases {
        world.drop_in(&format!("{id}.json"), text);
    }
    world.put("good", "t");
    world.completed("good");
    for (id, text, reason) in &cases {
        let told = world.rejected(&format!("{id}.json"));
        assert!(told.starts_with(reason), "{id}: {told}");
        let kept = read(&world.spool_path(&format!("rejected/{id}.json"))).unwrap();
        assert_eq!(&kept, text, "nothing of it is lost");
    }
    // The same name again is another thing that is kept.
    world.drop_in("other.json", &whole("yet-another"));
    assert!(world.rejected("other.json.1").contains("yet-another"));
    assert!(world.rejected("other.json").contains("`another`"));
    assert_eq!(world.testimony("ran"), ["good"]);
    krond.stop();
}

#[test]
fn names_that_no_task_has_are_set_aside() {
    let world = new_world_in_memory(&spool("", &handler("t", RAN)));
    world.make_pending();
    let no_text = world.pending("").join(OsStr::from_bytes(b"\xff\xfe.json"));
    fs::write(&no_text, "before").unwrap();
    let krond = world.start();
    assert_eq!(world.rejected("\\xff\\xfe.json"), "its name is not UTF-8");
    let no_text = world.pending("").join(OsStr::from_bytes(b"n\xff"));
    fs::write(&no_text, "meanwhile").unwrap();
    assert_eq!(world.rejected("n\\xff"), "its name is not UTF-8");
    let long = "l".repeat(201);
    let long = long.as_str();
    for id in ["a b", "..", "-x", "_x", "ü", "a:b", "a\nb", "%2e%2e%2f", long] {
        world.drop_in(&format!("{id}.json"), &whole("x"));
        let fits = &id[..id.len().min(220)];
        if id == ".." {
            // What begins with a dot is somebody's temporary file.
            continue;
        }
        let told = world.rejected(&format!("{fits}.json"));
        assert!(told.starts_with("its name is no task's: "), "{id:?}: {told}");
    }
    world.put("good", "t");
    world.completed("good");
    assert!(world.pending("...json").exists(), "hidden files are ignored");
    // Many producers write under another name first: that gets a while, and then is a task. It is a
    // minute of real time, because the daemon goes by the times of files. One short command is run
    // in it, which takes seconds on a busy machine, and no sync waits for the disk.
    world.drop_in("later.json.part", &whole("later"));
    world.put("good2", "t");
    world.completed("good2");
    assert!(world.pending("later.json.part").exists());
    fs::rename(world.pending("later.json.part"), world.pending("later.json")).unwrap();
    world.completed("later");
    assert_eq!(world.testimony("ran"), ["good", "good2", "later"]);
    krond.stop();
}

#[test]
fn a_name_without_json_is_set_aside_when_nobody_has_renamed_it_for_a_minute() {
    if left_out("a minute later", &[Need::Faketime]) {
        return;
    }
    let world = world("", &handler("t", RAN));
    world.make_pending();
    world.drop_in("notes.txt", "these are notes");
    let mut krond = Krond::spawn(
        world
            .command()
            .env("LD_PRELOAD", preloaded_clock().unwrap())
            .env("FAKETIME", "+61s")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("NO_FAKE_STAT", "1"),
    );
    krond.wait_for("ready");
    assert_eq!(world.rejected("notes.txt"), "its name does not end in `.json`");
}

#[test]
fn a_daemon_that_is_not_root_sets_aside_what_it_may_not_read() {
    if left_out("files of others", &[Need::Root]) {
        return;
    }
    let world = world("", &handler("t", RAN));
    // The directory of the world, and of the witnesses.
    let witness = world.witness("");
    let root = witness.parent().unwrap();
    for path in [root, &witness] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::set_permissions(world.config_path(), fs::Permissions::from_mode(0o644)).unwrap();
    // The daemon where that user finds it, too.
    let program = root.join("krond");
    copy_program(Path::new(crate::KROND), &program);
    let mut command = Command::new(&program);
    command.args(world.command().get_args()).uid(NOBODY).gid(NOBODY);
    let mut krond = Krond::spawn(&mut command);
    krond.wait_for("ready");
    let draft = world.witness("draft");
    fs::write(&draft, whole("unreadable")).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&draft, world.pending("unreadable.json")).unwrap();
    let told = world.rejected("unreadable.json");
    assert!(told.starts_with("it cannot be read: Permission denied"), "{told}");
    world.put("good", "t");
    world.completed("good");
    assert_eq!(world.testimony("ran"), ["good"]);
    krond.stop();
}

#[test]
fn files_of_producers_that_are_named_are_tasks() {
    if left_out("files of others", &[Need::Root]) {
        return;
    }
    let world = world("producers = [\"nobody\", \"4711\"]", &handler("t", RAN));
    let _krond = world.start();
    for (id, owner) in [("named", NOBODY), ("numbered", 4711), ("stranger", 4712)] {
        let draft = world.witness("draft");
        fs::write(&draft, whole(id)).unwrap();
        chown(&draft, Some(owner), Some(owner)).unwrap();
        fs::rename(&draft, world.pending(&format!("{id}.json"))).unwrap();
    }
    world.completed("named");
    world.completed("numbered");
    world.rejected("stranger.json");
    let mut ran = world.testimony("ran");
    ran.sort();
    assert_eq!(ran, ["named", "numbered"]);
}
