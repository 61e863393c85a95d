//! What a command finds when it runs.
//!
//! Commands are run by hand, which takes the same way.

use kron_testkit::krond::seldom;
use kron_testkit::needs::{Need, left_out};

use crate::crontab::tabs::{Tabs, identity, path_of};

/// The variables that a command saw, without those that tell it which run it is.
fn environment(output: &str) -> Vec<&str> {
    let mut lines: Vec<&str> =
        output.lines().filter(|line| line.contains('=') && !line.starts_with("KRON_")).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn commands_run_as_their_users_in_the_environment_that_cron_gives() {
    if left_out("users of crontab entries", &[Need::Root]) {
        return;
    }
    let seldom = seldom();
    let look = "env; echo in $PWD; echo as $(id -un) $(id -gn); umask";
    let tabs = Tabs::new(&format!(
        "{seldom} nobody {look}\n{seldom} root {look}\n\
         HOME=/tmp\nLOGNAME=eve\nMAILTO=ops\nCRON_TZ=Asia/Tokyo\nA = \"two  words\"\nPATH=/opt:/usr/bin:/bin\n\
         {seldom} nobody {look}; true\n"
    ));
    let mut command = tabs.command();
    let mut krond = kron_testkit::krond::Krond::spawn(command.env("SECRET", "of the daemon's"));
    krond.wait_for("ready");

    // As Debian's cron has it, but for `USER`, which other crons set. The home of nobody is not
    // there, and neither is the login shell used.
    let nobody = tabs.run(&mut krond, &identity("nobody", seldom, look));
    assert_eq!(
        environment(&nobody),
        [
            "HOME=/nonexistent",
            "LOGNAME=nobody",
            "PATH=/usr/bin:/bin",
            "PWD=/",
            "SHELL=/bin/sh",
            "USER=nobody",
        ]
    );
    assert!(nobody.ends_with("in /\nas nobody nogroup\n0022\n"), "{nobody}");

    let root = tabs.run(&mut krond, &identity("root", seldom, look));
    assert_eq!(
        environment(&root),
        [
            "HOME=/root",
            "LOGNAME=root",
            "PATH=/usr/bin:/bin",
            "PWD=/root",
            "SHELL=/bin/sh",
            "USER=root",
        ]
    );
    assert!(root.ends_with("in /root\nas root root\n0022\n"), "{root}");

    let set = tabs.run(&mut krond, &identity("nobody", seldom, &format!("{look}; true")));
    assert_eq!(
        environment(&set),
        [
            "A=two  words",
            "CRON_TZ=Asia/Tokyo",
            "HOME=/tmp",
            "LOGNAME=nobody",
            "MAILTO=ops",
            "PATH=/opt:/usr/bin:/bin",
            "PWD=/tmp",
            "SHELL=/bin/sh",
            "USER=nobody",
        ]
    );
    assert!(set.ends_with("in /tmp\nas nobody nogroup\n0022\n"), "{set}");
}

#[test]
fn percent_signs_are_input_and_the_shell_is_the_one_that_is_set() {
    if left_out("input of crontab entries", &[Need::Root]) {
        return;
    }
    let seldom = seldom();
    let commands = [
        ("cat%Joe,%%a\\\\%b 100\\%%", "Joe,\n\na\\%b 100%\n"),
        ("cat; echo \\%s | tr s e", "%e\n"),
        ("echo $0 ${BASH_VERSION:-none}", "/bin/sh none\n"),
    ];
    let mut text: String =
        commands.iter().map(|(command, _)| format!("{seldom} nobody {command}\n")).collect();
    let bash = "[[ $0 == */bash && ab == a* ]] && echo \"$0 $SHELL\"";
    text += &format!("SHELL=/bin/bash\n{seldom} nobody {bash}\n");
    let tabs = Tabs::new(&text);
    let mut krond = tabs.start();
    for (command, expected) in commands {
        let said = tabs.run(&mut krond, &identity("nobody", seldom, command));
        assert_eq!(said, expected, "{command}");
    }
    let said = tabs.run(&mut krond, &identity("nobody", seldom, bash));
    assert_eq!(said, "/bin/bash /bin/bash\n");
}

#[test]
fn a_user_who_is_not_there_is_told_at_once_and_again_when_it_matters() {
    let seldom = seldom();
    let tabs = Tabs::new(&format!("{seldom} kron-is-nobody true\n"));
    let mut krond = tabs.start();
    let told = krond.events("diagnostic");
    assert_eq!(told[0]["level"], "warn");
    assert_eq!(told[0]["message"], "there is no user `kron-is-nobody`: this will not start");
    assert_eq!(told[0]["line"], 1);
    let name = identity("kron-is-nobody", seldom, "true");
    let (status, answer) = tabs.world.ask("POST", &path_of(&name, "/run"), "{}");
    assert_eq!(status, 500, "{answer}");
    assert!(answer.to_string().contains("kron-is-nobody"), "{answer}");
}
