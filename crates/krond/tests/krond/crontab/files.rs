//! Which files count, what is left out of them, and what a reload makes of them.

use std::fs;

use kron_testkit::krond::{Krond, seldom};
use kron_testkit::needs::{Need, left_out};
use nix::sys::signal::Signal;

use crate::crontab::tabs::{Tabs, complaints, identity, set_mode};

fn line(command: &str) -> String {
    format!("{} root {command}\n", seldom())
}

fn name(command: &str) -> String {
    identity("root", seldom(), command)
}

#[test]
fn a_bad_line_is_told_and_left_out_and_the_others_run() {
    if left_out("a bad line is told and left out and the others run", &[Need::Root]) {
        return;
    }
    let tabs = Tabs::new(&format!(
        "MAILTO=root\nMAILTO=ops\n{}61 * * * * root never\n@reboot root at-boot\n{}",
        line("echo one"),
        line("echo two"),
    ));
    let mut krond = tabs.start();
    assert_eq!(
        complaints(&mut krond),
        [
            "tab:1 `MAILTO` is set, but Kron sends no mail",
            "tab:4 `61` is outside the minute field",
            "tab:5 `@reboot` is not supported: it is not a time, so it has no period",
        ]
    );
    let told = krond.events("diagnostic");
    assert!(told.iter().all(|line| line["help"].is_string()), "{told:?}");
    assert!(told[2]["help"].as_str().unwrap().contains("WantedBy=multi-user.target"));
    let mut expected = vec![name("echo one"), name("echo two")];
    expected.sort();
    assert_eq!(tabs.identities(), expected);
    assert_eq!(tabs.run(&mut krond, &name("echo two")), "two\n");
}

#[test]
fn the_same_line_in_two_files_is_two_jobs() {
    if left_out("the same line in two files is two jobs", &[Need::Root]) {
        return;
    }
    let tabs = Tabs::new(&line("echo $KRON_IDENTITY"));
    tabs.write("again", &line("echo $KRON_IDENTITY"));
    let mut krond = tabs.start();
    let (first, second) =
        (name("echo $KRON_IDENTITY"), format!("{}#2", name("echo $KRON_IDENTITY")));
    assert_eq!(tabs.identities(), [first.clone(), second.clone()]);
    // Files are read in the order of their names.
    assert!(tabs.job(&first)["definition"]["defined_at"].to_string().contains("again"));
    for identity in [first, second] {
        assert_eq!(tabs.run(&mut krond, &identity), format!("{identity}\n"));
    }
}

#[test]
fn what_cron_passes_over_is_passed_over() {
    if left_out("what cron passes over is passed over", &[Need::Root]) {
        return;
    }
    let tabs = Tabs::new(&line("echo counts"));
    for name in [".placeholder", "tab.dpkg-old", "tab~", "#tab#", "tab.bak"] {
        tabs.write(name, &line("echo does-not"));
    }
    fs::create_dir(tabs.dir().join("directory")).unwrap();
    // The same file by two ways is one.
    let mut command = tabs.command();
    let mut krond = Krond::spawn(command.arg("--crontab").arg(tabs.dir().join("tab")));
    krond.wait_for("ready");
    assert_eq!(tabs.identities(), [name("echo counts")]);
    assert!(complaints(&mut krond).is_empty());
}

#[test]
fn a_file_that_others_could_have_written_is_refused_until_it_is_not() {
    if left_out("a file that others could have written is refused until it is not", &[Need::Root]) {
        return;
    }
    let tabs = Tabs::new(&line("echo trusted"));
    let open = tabs.write("open", &line("echo open"));
    set_mode(&open, 0o664);
    let mut krond = tabs.start();
    let refused = "open:1 `open` may be written by others than its owner: its mode is 0664; \
                   the file is left out";
    assert_eq!(complaints(&mut krond), [refused]);
    assert_eq!(tabs.identities(), [name("echo trusted")]);

    set_mode(&open, 0o644);
    let (status, answer) = tabs.world.ask("POST", "/api/v1/reload", "{}");
    assert_eq!((status, &answer["job_count"]), (200, &2.into()), "{answer}");

    std::os::unix::fs::chown(&open, Some(65_534), None).unwrap();
    let (status, answer) = tabs.world.ask("POST", "/api/v1/reload", "{}");
    assert_eq!((status, &answer["job_count"]), (200, &1.into()), "{answer}");
    let told = answer["diagnostics"].as_str().unwrap();
    assert!(told.contains("belongs to user 65534, who may not say what runs here"), "{told}");
    assert!(told.contains("chown root"), "{told}");
}

#[test]
fn a_reload_reads_the_files_again_and_bad_ones_spoil_nothing() {
    if left_out("a reload reads the files again and bad ones spoil nothing", &[Need::Root]) {
        return;
    }
    let tabs = Tabs::new(&line("echo old"));
    let mut krond = tabs.start();
    // Cron would look at the file's time; here nothing happens until it is asked for.
    tabs.write("tab", &line("echo new"));
    tabs.write("other", &format!("{}* * * * root oops\n", line("echo other")));
    assert_eq!(tabs.identities(), [name("echo old")]);

    krond.signal(Signal::SIGHUP);
    let loaded = krond.wait_for("loaded");
    assert_eq!((&loaded["added"], &loaded["removed"]), (&2.into(), &1.into()), "{loaded}");
    let mut expected = vec![name("echo new"), name("echo other")];
    expected.sort();
    assert_eq!(tabs.identities(), expected);
    assert!(complaints(&mut krond).iter().any(|told| told.starts_with("other:2 ")));

    // An unreadable file is left out, and a directory that is gone changes nothing.
    fs::write(tabs.dir().join("tab"), b"* * * * * root caf\xe9\n").unwrap();
    fs::remove_file(tabs.dir().join("other")).unwrap();
    std::os::unix::fs::symlink("nowhere", tabs.dir().join("dangling")).unwrap();
    let (status, answer) = tabs.world.ask("POST", "/api/v1/reload", "{}");
    assert_eq!((status, &answer["job_count"]), (200, &0.into()), "{answer}");
    let told = answer["diagnostics"].as_str().unwrap();
    assert!(told.contains("a line that is not UTF-8"), "{told}");
    assert!(told.contains("dangling`: No such file"), "{told}");
    tabs.write("tab", &line("echo last"));
    assert_eq!(tabs.world.ask("POST", "/api/v1/reload", "{}").0, 200);
    fs::rename(tabs.dir(), tabs.dir().with_extension("gone")).unwrap();
    let (status, answer) = tabs.world.ask("POST", "/api/v1/reload", "{}");
    assert!(status >= 400, "{status} {answer}");
    assert_eq!(tabs.identities(), [name("echo last")]);
}

#[test]
fn crontabs_stand_alone_or_beside_native_files() {
    if left_out("crontabs stand alone or beside native files", &[Need::Root]) {
        return;
    }
    let tabs = Tabs::new(&line("echo tab"));
    let native = format!("[job.native]\nschedule = \"{}\"\ncommand = [\"/bin/true\"]\n", seldom());
    tabs.world.configure(&native);
    let mut command = tabs.command();
    let mut krond = Krond::spawn(command.arg("--config").arg(tabs.world.config_path()));
    krond.wait_for("ready");
    assert_eq!(tabs.identities(), [name("echo tab"), "native".to_owned()]);
    // The zone of crontabs is not that of native files.
    assert_eq!(tabs.job("native")["definition"]["timezone"], "UTC");
    // A fault in a native file keeps everything as it is, whatever the crontabs say.
    tabs.world.configure("[job.native]\nschedule = \"nonsense\"\n");
    tabs.write("tab", &line("echo other"));
    assert_eq!(tabs.world.ask("POST", "/api/v1/reload", "{}").0, 422);
    assert_eq!(tabs.identities(), [name("echo tab"), "native".to_owned()]);
    krond.stop();

    // Without either there is nothing to run, and what was named must be there.
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(crate::KROND);
        let state = tabs.world.state_dir();
        let output = command.arg("run").arg("--state-dir").arg(state).args(words).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run(&[]);
    assert_eq!(code, 2, "{said}");
    let (code, said) = run(&["--crontab", "/no/such/crontab"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("cannot read `/no/such/crontab`"), "{said}");
}
