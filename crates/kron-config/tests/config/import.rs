//! Crontabs turned into native files: they load without errors, and decide and run the same.

use crate::corpus_files;
use kron_config::{
    CrontabOwner, Diagnostic, Fate, Format, Imported, Importer, Job, Loaded, Loader, Options,
    Source,
};
use kron_core::{UtcSecond, Zone};
use proptest::prelude::*;

/// Nominal times that are compared; of an hourly job, all of them.
const NOMINALS_MAX: usize = 400_000;

fn options(zone: &str) -> Options {
    Options { crontab_zone: Some(Zone::named(zone).expect("a zone")), ..Options::default() }
}

fn load(source: &Source, format: &Format, options: &Options) -> Loaded {
    let mut loader = Loader::new(options.clone());
    loader.load(source, format);
    loader.finish()
}

/// What a job's process is made of: words, user, directory, environment, input.
fn process(job: &Job) -> impl PartialEq + std::fmt::Debug + use<> {
    let words = job.action.to_argv();
    let execution = &job.execution;
    let mut env = execution.env.to_vec();
    env.sort();
    (words, execution.user.clone(), execution.cwd.clone(), env, execution.stdin.clone())
}

/// The nominal times of five years.
fn nominals(job: &Job) -> impl Iterator<Item = UtcSecond> + '_ {
    let from = "2025-12-31T23:59:59Z".parse().expect("a time");
    let to: UtcSecond = "2031-01-01T00:00:00Z".parse().expect("a time");
    let after = job.timing.schedule().after(from);
    after.take_while(move |nominal| *nominal < to).take(NOMINALS_MAX)
}

/// Imports a crontab and asserts that the native file is the same set of jobs.
#[track_caller]
fn check_same(name: &str, source: &Source, owner: &CrontabOwner, options: &Options) -> Imported {
    let crontab = load(source, &Format::Crontab(owner.clone()), options);
    let imported = Importer::new(options.clone()).import(source, owner);
    let native = Source::new("native.toml", &imported.toml);
    let native = load(&native, &Format::Toml, &Options::default());
    let errors: Vec<String> =
        native.diagnostics.iter().filter(|said| said.is_error()).map(ToString::to_string).collect();
    assert!(errors.is_empty(), "{name}: {}\n{}", errors.join("\n"), imported.toml);
    assert_eq!(native.jobs.len(), crontab.jobs.len(), "{name}\n{}", imported.toml);
    assert_eq!(imported.jobs, crontab.jobs.len(), "{name}");
    for (native, entry) in native.jobs.iter().zip(&crontab.jobs) {
        let place = format!("{name}:{} as {}", entry.origin.line, native.identity());
        assert_eq!(process(native), process(entry), "{place}");
        assert_eq!(native.timing.policy, entry.timing.policy, "{place}");
        assert_eq!(native.timing.schedule(), entry.timing.schedule(), "{place}");
        let placed = |job: &Job| {
            let placement = job.timing.placement();
            (placement.window(), placement.distribution(), placement.seed_strategy())
        };
        assert_eq!(placed(native), placed(entry), "{place}");
    }
    // Every line that became nothing is told, and only those.
    let left_out = imported.notes.iter().filter(|note| note.fate == Fate::LeftOut).count();
    let errors = crontab.diagnostics.iter().filter(|said| Diagnostic::is_error(said)).count();
    assert_eq!(left_out, errors, "{name}");
    imported
}

#[test]
fn every_file_of_the_corpus_decides_the_same_times() {
    let mut compared = 0;
    for zone in ["UTC", "Europe/Paris", "Australia/Lord_Howe"] {
        let options = options(zone);
        for file in corpus_files::all() {
            let imported = check_same(&file.name, &file.source, &file.owner, &options);
            let crontab = load(&file.source, &Format::Crontab(file.owner.clone()), &options);
            let native = Source::new("native.toml", &imported.toml);
            let native = load(&native, &Format::Toml, &Options::default());
            for (native, entry) in native.jobs.iter().zip(&crontab.jobs) {
                let place = format!("{}:{}", file.name, entry.origin.line);
                let mut count = 0;
                let mut entries = nominals(entry);
                for nominal in nominals(native) {
                    assert_eq!(entries.next(), Some(nominal), "{place}");
                    count += 1;
                }
                assert_eq!(entries.next(), None, "{place}");
                assert!(count > 0 || entry.timing.schedule().next_after(UtcSecond::MIN).is_none());
                compared += count;
            }
        }
    }
    assert!(compared > 10_000_000, "only {compared} times were compared");
}

#[test]
fn names_are_unique_over_files() {
    let mut importer = Importer::new(Options::default());
    let mut loader = Loader::new(Options::default());
    let mut jobs = 0;
    for file in corpus_files::all() {
        let imported = importer.import(&file.source, &file.owner);
        jobs += imported.jobs;
        loader.load(&Source::new(&file.name, &imported.toml), &Format::Toml);
    }
    let loaded = loader.finish();
    assert!(loaded.is_usable(), "{:?}", loaded.diagnostics.first());
    assert_eq!(loaded.jobs.len(), jobs);
    assert!(jobs > 100, "{jobs}");
}

#[test]
fn a_file_as_people_see_it() {
    let text = "\
# DO NOT EDIT THIS FILE - edit the master and reinstall.
# (/tmp/crontab.x installed on Mon Mar  2 09:15:00 2026)
# (Cron version -- 3.0)
# ann's jobs
MAILTO=ann@example.org
PATH=/home/ann/bin:/usr/bin:/bin

*/15 * * * * sync.sh >/dev/null 2>&1
0 2 * * * tar czf /backup/home-$(date +\\%F).tar.gz ~
# at boot
@reboot ~/bin/warm-up
0 22 * * 1-5 mail -s \"it's ten\" joe%Joe,%%go home%
CRON_TZ=America/New_York
SHELL=/bin/bash
HOME=/srv/ann
30 9 * * 1-5 [[ -e open ]] && ring.sh \"the bell\"
H 4 * * * sync.sh
61 * * * * never
RANDOM_DELAY=30
#0 0 * * * off
";
    let source = Source::new("crontabs/ann", text);
    let owner = CrontabOwner::User("ann".to_owned());
    let imported = check_same("ann", &source, &owner, &options("Europe/Paris"));
    let notes: Vec<String> = imported
        .notes
        .iter()
        .map(|note| format!("{} {:?}: {}", note.line, note.fate, note.message))
        .collect();
    insta::assert_snapshot!(format!("{}\n{}", imported.toml, notes.join("\n")));
}

#[test]
fn only_comments_of_the_beginning_that_crontab_writes_are_dropped() {
    let mark = "# DO NOT EDIT THIS FILE - edit the master and reinstall.";
    let source =
        Source::new("ann", &format!("{mark}\n0 1 * * * one\nA=b\n# kept\n0 2 * * * two\n"));
    let owner = CrontabOwner::User("ann".to_owned());
    let imported = check_same("ann", &source, &owner, &options("UTC"));
    assert_eq!(imported.jobs, 2);
    assert!(imported.toml.contains("# kept") && !imported.toml.contains(mark), "{}", imported.toml);
}

#[test]
fn too_many_bad_lines_are_told() {
    let source = Source::new("bad", &("x\n".repeat(1_005) + "0 1 * * * root y\n"));
    let imported = Importer::new(Options::default()).import(&source, &CrontabOwner::System);
    assert_eq!((imported.jobs, imported.lines_left_out, imported.cut_short), (1, 1_005, false));
    assert_eq!(imported.notes.len(), 1_001);
    assert_eq!(imported.notes[1_000].message, "5 more lines of this file are left out");
    assert!(
        imported.toml.contains("# line 1005: x\n#   left out, as is said above\n\n# line 1006:")
    );
}

#[test]
fn entries_of_an_unknown_zone_are_left_out_with_their_zone() {
    let text = "CRON_TZ=Mars\n0 1 * * * a\n0 2 * * * cat%x\nA=b\nCRON_TZ=\n0 3 * * * c\n";
    let owner = CrontabOwner::User("ann".to_owned());
    let imported = check_same("zones", &Source::new("ann", text), &owner, &options("Asia/Tokyo"));
    assert_eq!((imported.jobs, imported.lines_left_out), (1, 3));
    let notes: Vec<String> = imported
        .notes
        .iter()
        .map(|note| format!("{} {:?}: {}", note.line, note.fate, note.message))
        .collect();
    assert_eq!(
        notes,
        [
            "1 LeftOut: unknown time zone `Mars`; 2 entries up to the next `CRON_TZ` are left out",
            "5 Differs: `CRON_TZ` is empty: the entries below it are read in Asia/Tokyo",
        ]
    );
    for line in ["2: 0 1 * * * a", "3: 0 2 * * * cat%x"] {
        let said = format!("# line {line}\n#   left out, as is said above\n");
        assert!(imported.toml.contains(&said), "{}", imported.toml);
    }
}

#[test]
fn what_is_a_crontab() {
    let is_crontab = |text: &str| {
        let source = Source::new("any", text);
        Importer::new(Options::default()).import(&source, &CrontabOwner::System).is_crontab
    };
    for text in [
        "",
        "# nothing yet\n",
        "PATH=/bin\n",
        "0 1 * * * root x\n",
        "some prose\n0 1 * * * root x\n",
        "@reboot root x\n",
        "CRON_TZ=Mars\n0 1 * * * root x\n",
    ] {
        assert!(is_crontab(text), "{text}");
    }
    for text in [
        "some prose\n",
        "root:*:19000:0:99999:7:::\n",
        "# c\nA=b\n61 * * * * root x\n",
        "SHELL=x\n",
    ] {
        assert!(!is_crontab(text), "{text}");
    }
}

fn field(low: u32, high: u32) -> impl Strategy<Value = String> {
    let value = low..=high;
    let range =
        (value.clone(), value.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    prop_oneof![
        4 => Just("*".to_owned()),
        4 => value.clone().prop_map(|value| value.to_string()),
        2 => (2..=high).prop_map(|step| format!("*/{step}")),
        2 => range.clone(),
        1 => (range, 2..=9u32).prop_map(|(range, step)| format!("{range}/{step}")),
        1 => prop::collection::vec(value.prop_map(|value| value.to_string()), 1..4)
            .prop_map(|values| values.join(",")),
        1 => Just("H".to_owned()),
    ]
}

fn schedule() -> impl Strategy<Value = String> {
    let fields = (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7))
        .prop_map(|(a, b, c, d, e)| format!("{a} {b} {c} {d} {e}"));
    let nickname =
        prop::sample::select(vec!["@hourly", "@daily", "@weekly", "@monthly", "@reboot"]);
    prop_oneof![9 => fields, 1 => nickname.prop_map(str::to_owned)]
}

fn line() -> impl Strategy<Value = String> {
    let command = "[a-z/.%\\\\'\"\u{7}\t#$=\u{e9}\u{85}-][ -~%\\\\'\"\t\u{7}\u{e9}\u{85}]{0,30}";
    let entry =
        (schedule(), command).prop_map(|(schedule, command)| format!("{schedule} {command}"));
    let name = prop::sample::select(vec!["A", "PATH", "HOME", "SHELL", "CRON_TZ", "MAILTO", "TZ"]);
    let value = prop_oneof![
        "[ -~\u{e9}\u{7}]{0,20}",
        Just("/bin/bash".to_owned()),
        Just("Asia/Tokyo".to_owned()),
        Just("'/srv/it''s'".to_owned()),
    ];
    let variable = (name, value).prop_map(|(name, value)| format!("{name}={value}"));
    prop_oneof![6 => entry, 2 => variable, 1 => "# [ -~\u{7}]{0,20}", 1 => Just(String::new())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a crontab says, the native file loads and is the same set of jobs.
    #[test]
    fn any_crontab_can_be_imported(lines in prop::collection::vec(line(), 0..12)) {
        let source = Source::new("any", &(lines.join("\n") + "\n"));
        let owner = CrontabOwner::User("ann".to_owned());
        check_same("any", &source, &owner, &options("America/New_York"));
    }
}
