//! Tables `[hook.NAME]`: who is told what.

use kron_config::{Format, Hook, HookEvent, HookTarget};
use kron_core::Seconds;

use crate::loading::{check_said, load};

fn hook(text: &str) -> Hook {
    let loaded = load(&Format::Toml, &format!("[hook.pager]\n{text}\n"));
    assert!(loaded.diagnostics.is_empty(), "{text}: {:?}", loaded.diagnostics);
    loaded.daemon.hooks.into_iter().next().expect("a hook")
}

#[test]
fn a_command_is_told_what_is_usual() {
    let expected = Hook {
        name: "pager".to_owned(),
        on: vec![
            HookEvent::Failed,
            HookEvent::TimedOut,
            HookEvent::Lost,
            HookEvent::Missed,
            HookEvent::Skipped,
            HookEvent::Unschedulable,
        ],
        jobs: Vec::new(),
        target: HookTarget::Command { argv: vec!["/usr/bin/page".to_owned()], user: None },
        timeout: Seconds::new(30),
        retry_for: Seconds::new(86_400),
    };
    assert_eq!(hook("command = ['/usr/bin/page']"), expected);
}

#[test]
fn every_key() {
    let web = hook(
        "url = 'https://example.org/hook?x=1'\non = ['missed', 'succeeded', 'missed']\n\
         jobs = ['db-*']\nheaders = { X-Key = 'a b' }\ntoken_file = '/etc/kron/token'\n\
         timeout = '5s'\nretry_for = '0s'",
    );
    assert_eq!(web.on, [HookEvent::Succeeded, HookEvent::Missed]);
    assert!(web.wants(HookEvent::Missed, "db-backup"));
    assert!(!web.wants(HookEvent::Missed, "web") && !web.wants(HookEvent::Failed, "db-backup"));
    assert_eq!((web.timeout, web.retry_for), (Seconds::new(5), Seconds::ZERO));
    let target = HookTarget::Web {
        url: "https://example.org/hook?x=1".to_owned(),
        headers: vec![("X-Key".to_owned(), "a b".to_owned())],
        token_file: Some("/etc/kron/token".to_owned()),
    };
    assert_eq!(web.target, target);
    let HookTarget::Command { user, .. } = hook("command = ['x']\nuser = 'ops'").target else {
        panic!("a command");
    };
    assert_eq!(user.as_deref(), Some("ops"));
}

#[test]
fn what_is_refused() {
    for (text, expected) in [
        ("on = ['failed']", "1:7 hook `pager` has neither `command` nor `url`"),
        ("command = ['x']\nurl = 'http://a'", "1:7 hook `pager` has both `command` and `url`"),
        (
            "command = 'x'",
            "2:11 expected a list of words such as `[\"/usr/bin/notify\"]`, found a text",
        ),
        ("command = []", "2:11 an empty command"),
        ("command = ['x']\non = ['fail']", "3:7 unknown event `fail`"),
        ("command = ['x']\non = []", "3:6 a hook that is never told anything"),
        (
            "command = ['x']\non = 'failed'",
            "3:6 expected a list such as `[\"failed\", \"missed\"]`, found a text",
        ),
        ("command = ['x']\nheaders = { A = 'b' }", "3:11 `headers` goes with `url`"),
        ("url = 'http://a'\nuser = 'x'", "3:8 `user` goes with `command`"),
        ("url = 'ftp://a'", "2:7 `ftp://a` is neither `http://` nor `https://`"),
        ("url = 'https:///x'", "2:7 `https:///x` has no host"),
        (
            "url = 'https://u:secret@a/'",
            "2:7 the address has a user or password in it, which would be logged; use `headers`",
        ),
        ("url = 'http://a b'", "2:7 `http://a b` has a space or control character"),
        ("url = 'http://a'\nheaders = { 'a b' = 'c' }", "3:13 `a b` is no header's name"),
        (
            "url = 'http://a'\nheaders = { content-length = '5' }",
            "3:13 `content-length` is set by krond itself",
        ),
        (
            "url = 'http://a'\nheaders = { A = \"c\\nd\" }",
            "3:17 a header with a character that it cannot hold",
        ),
        ("url = 'http://a'\ntoken_file = 'x'", "3:14 `x` is not an absolute path"),
        ("command = ['x']\ntimeout = '11m'", "3:11 `timeout` of a hook is at most 10m"),
        ("command = ['x']\ntimeout = '0s'", "3:11 must be longer than 0s"),
        ("command = ['x']\njobs = []", "3:8 expected 1 to 64 names"),
        ("comand = ['x']\nurl = 'http://a'", "2:1 unknown key `comand` of a hook"),
    ] {
        let loaded = check_said(&Format::Toml, &format!("[hook.pager]\n{text}\n"), &[expected]);
        assert!(!loaded.is_usable() && loaded.daemon.hooks.is_empty(), "{text}");
    }
    check_said(&Format::Toml, "hook = 5\n", &["1:1 `hook` is not a table"]);
    check_said(&Format::Toml, "[hook]\nx = 5\n", &["2:1 `hook.x` is not a table"]);
}

#[test]
fn names_are_unique_and_hooks_are_bounded() {
    let one = |name: usize| format!("[hook.h{name}]\ncommand = ['x']\n");
    let many: String = (0..65).map(one).collect();
    check_said(&Format::Toml, &many, &["129:7 more than 64 hooks"]);
    let mut loader = kron_config::Loader::new(kron_config::Options::default());
    for name in ["a.toml", "b.toml"] {
        loader.load(&kron_config::Source::new(name, &one(1)), &Format::Toml);
    }
    let loaded = loader.finish();
    let said = &loaded.diagnostics[0];
    assert_eq!(said.message, "hook `h1` is defined twice");
    assert!(said.help.as_ref().is_some_and(|help| help.contains("a.toml:1")), "{said:?}");
}
