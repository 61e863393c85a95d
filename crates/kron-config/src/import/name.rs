//! A name for a job, from the program that its command is about.
//!
//! It is a guess for people, so it need not be right, only short, plain and always the same: the user,
//! then the first word of the command that looks like a program and is no guard, no shell keyword and
//! none of the usual wrappers.

/// Characters a name may have before its number.
const NAME_CHARS_MAX: usize = 48;

/// Words after which a command only begins.
const KEYWORDS: [&str; 11] =
    ["if", "then", "else", "elif", "do", "while", "until", "!", "exec", "time", "{"];
/// Programs whose command is only a condition or a preparation of the next.
const GUARDS: [&str; 14] = [
    "test", "[", "[[", "cd", "command", "umask", "sleep", "export", "set", "ulimit", ".", "source",
    "fi", "done",
];
/// Programs that run another, and how many words of their own come before it.
const WRAPPERS: [(&str, usize); 14] = [
    ("env", 0),
    ("nice", 0),
    ("ionice", 0),
    ("chrt", 0),
    ("nohup", 0),
    ("setsid", 0),
    ("sudo", 0),
    ("chronic", 0),
    ("sh", 0),
    ("bash", 0),
    ("flock", 1),
    ("lockfile-create", 1),
    ("timeout", 0),
    ("systemd-cat", 0),
];

/// The name of a job of `user` that runs `line`.
pub(super) fn of(user: &str, line: &str) -> String {
    let simple_commands = line.split([';', '|', '&', '(', ')', '{', '}', '`', '\n']);
    let mut program = simple_commands.into_iter().find_map(program);
    program = program.or_else(|| line.split_whitespace().next().map(plain));
    let program = program.filter(|name| !name.is_empty()).unwrap_or_else(|| "job".to_owned());
    let name = format!("{}-{program}", plain(user));
    name.chars().take(NAME_CHARS_MAX).collect::<String>().trim_end_matches('-').to_owned()
}

/// The program that a simple command is about; `None` when it only prepares the next.
fn program(command: &str) -> Option<String> {
    let mut words = command.split_whitespace().map(|word| word.trim_matches(['"', '\'', '\\']));
    let mut to_skip = 0;
    while let Some(word) = words.next() {
        let base = base(word);
        let wrapper = WRAPPERS.iter().find(|(name, _)| *name == base);
        if GUARDS.contains(&base) {
            return None;
        } else if let Some((_, own)) = wrapper {
            to_skip = *own;
        } else if KEYWORDS.contains(&word) || !looks_like_a_program(word) {
        } else if to_skip > 0 {
            to_skip -= 1;
        } else if base == "run-parts" {
            let directory = words.find(|word| word.starts_with('/')).map(self::base);
            return Some(plain(&[base, directory.unwrap_or_default()].join("-")));
        } else {
            return Some(plain(base)).filter(|name| !name.is_empty());
        }
    }
    None
}

/// Whether a word could name a program: no option, assignment, redirection, number, or variable
/// without a path.
fn looks_like_a_program(word: &str) -> bool {
    let begins = |c: char| c.is_alphabetic() || matches!(c, '/' | '~' | '_');
    let plain = word.starts_with(begins) || (word.starts_with('$') && word.contains('/'));
    plain && !word.contains(['=', '>', '<'])
}

/// The last part of a path, without an ending that tells only what it is written in.
fn base(word: &str) -> &str {
    let base = word.rsplit('/').find(|part| !part.is_empty()).unwrap_or("");
    let ending = [".sh", ".bash", ".py", ".pl", ".rb", ".php"];
    ending.iter().find_map(|ending| base.strip_suffix(ending)).unwrap_or(base)
}

/// Letters, digits, `-` and `_`; everything else becomes `-`, and never two of them.
fn plain(text: &str) -> String {
    let mut name = String::new();
    for character in text.chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => name.push(character),
            _ if name.ends_with('-') || name.is_empty() => {}
            _ => name.push('-'),
        }
    }
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_runs() {
        for (line, expected) in [
            ("/usr/bin/backup --full", "ann-backup"),
            ("/home/ann/bin/sync.sh >/dev/null 2>&1", "ann-sync"),
            ("cd / && run-parts --report /etc/cron.hourly", "ann-run-parts-cron-hourly"),
            (
                "test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }",
                "ann-run-parts-cron-daily",
            ),
            (
                "[ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/x ]; then /usr/lib/php/sessionclean; fi",
                "ann-sessionclean",
            ),
            ("flock -n /tmp/sync.lock /home/ann/bin/sync", "ann-sync"),
            ("nice -n 19 ionice -c3 tar czf /b.tar.gz /home", "ann-tar"),
            ("MAILTO=x /opt/app/bin/report", "ann-report"),
            ("timeout 5m curl -s https://example.org", "ann-curl"),
            ("/bin/sh -c 'true'", "ann-true"),
            ("flock -n /tmp/lock $HOME/bin/x", "ann-x"),
            ("$COMMAND", "ann-COMMAND"),
            (">/dev/null", "ann-dev-null"),
            ("docker exec -t web php /app/artisan schedule:run", "ann-docker"),
            ("\u{1F600}", "ann-job"),
            ("", "ann-job"),
        ] {
            assert_eq!(of("ann", line), expected, "{line}");
        }
        assert_eq!(of("www-data", "x"), "www-data-x");
        assert_eq!(of("DOMAIN\\ann", "x"), "DOMAIN-ann-x");
        assert_eq!(of("ann", &"x".repeat(100)).len(), 48);
    }
}
