//! Jobs from the files and flags people give.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use kron_config::files::Trust;
use kron_config::{CrontabOwner, Diagnostic, Format, Job, Loaded, Loader, Options, files};
use kron_core::finding::{excerpt, nearest};
use kron_core::{
    Finding, Horizon, Host, Placement, Seconds, Timing, TimingParser, UtcSecond, Zone,
};

use crate::args::{FileFormat, HorizonArgs, JobArgs, ReadArgs};
use crate::clock;
use crate::failure::Failure;

/// The identity of a bare schedule that none was given for.
const DEFAULT_IDENTITY: &str = "job";

/// Reads all files into one set of jobs.
pub(crate) fn load(paths: &[PathBuf], read: &ReadArgs) -> Result<Loaded, Failure> {
    let zone =
        Zone::named(&read.crontab_timezone).map_err(Failure::argument("--crontab-timezone"))?;
    let mut loader = Loader::new(Options {
        host_name: read.host.clone(),
        machine_id: read.machine_id.clone(),
        crontab_zone: Some(zone),
    });
    for path in paths {
        let format = read.file_format.map(|format| file_format(format, path, read));
        for (file, mut format) in files::expand(path, format.as_ref())? {
            if let (Format::Crontab(CrontabOwner::User(user)), Some(name)) =
                (&mut format, &read.crontab_user)
            {
                user.clone_from(name);
            }
            let source = match &format {
                Format::Crontab(_) => files::read_crontab(&file, Trust::Anybody)?,
                Format::Toml | Format::Krontab => files::read(&file)?,
            };
            loader.load(&source, &format);
        }
    }
    Ok(loader.finish())
}

fn file_format(format: FileFormat, path: &Path, read: &ReadArgs) -> Format {
    match format {
        FileFormat::Toml => Format::Toml,
        FileFormat::Krontab => Format::Krontab,
        FileFormat::SystemCrontab => Format::Crontab(CrontabOwner::System),
        FileFormat::Crontab => {
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let user = read.crontab_user.clone().or(stem).filter(|user| user != "-");
            Format::Crontab(CrontabOwner::User(user.unwrap_or_else(|| "user".to_owned())))
        }
    }
}

/// Reads all files, shows what is wrong with them on standard error, and goes on only when the
/// jobs may be scheduled.
pub(crate) fn load_usable(paths: &[PathBuf], read: &ReadArgs) -> Result<Loaded, Failure> {
    let loaded = load(paths, read)?;
    show_diagnostics(&loaded.diagnostics, loaded.cut_short);
    if loaded.is_usable() { Ok(loaded) } else { Err(Failure::Definitions) }
}

/// Said when a load was cut short.
pub(crate) const CUT_SHORT: &str = "there is more; the rest was not read";

/// Diagnostics shown by commands that cannot go on because of them.
const SHOWN_MAX: usize = 10;

/// Shows the first diagnostics on standard error; when there are many, errors come first.
pub(crate) fn show_diagnostics(diagnostics: &[Diagnostic], cut_short: bool) {
    let mut shown: Vec<&Diagnostic> = diagnostics.iter().collect();
    if shown.len() > SHOWN_MAX {
        shown.sort_by_key(|diagnostic| !diagnostic.is_error());
        shown.truncate(SHOWN_MAX);
    }
    let mut err = std::io::stderr().lock();
    for diagnostic in &shown {
        let _ = writeln!(err, "{diagnostic}\n");
    }
    let more = diagnostics.len() - shown.len();
    if more > 0 {
        let _ = writeln!(err, "… and {more} more; `kron lint` shows them\n");
    }
    if cut_short {
        let _ = writeln!(err, "{CUT_SHORT}\n");
    }
}

/// The job that the arguments name, and where it is defined.
pub(crate) fn select(args: &JobArgs) -> Result<(Timing, Option<Job>), Failure> {
    if let Some(expression) = &args.schedule {
        return Ok((bare_schedule(expression, args)?, None));
    }
    if args.config.is_empty() {
        return Err(no_source(args.job.as_deref()));
    }
    let loaded = load_usable(&args.config, &args.read)?;
    let job = match &args.job {
        Some(name) => loaded.job(name),
        None if loaded.jobs.len() == 1 => loaded.jobs.first(),
        None => None,
    };
    match job {
        Some(job) => Ok((job.timing.clone(), Some(job.clone()))),
        None => Err(no_such_job(args.job.as_deref(), &loaded)),
    }
}

/// Neither a file nor a schedule was given.
fn no_source(job: Option<&str>) -> Failure {
    let looks_like_a_schedule =
        |text: &&str| text.starts_with('@') || text.split_whitespace().count() >= 5;
    match job {
        None => Failure::Unclear {
            message: "no job and no schedule was given".to_owned(),
            hint: "say `JOB --config PATH` or `--schedule EXPR`".to_owned(),
        },
        Some(text) if looks_like_a_schedule(&text) => Failure::Unclear {
            message: format!("`{}` is not the name of a job", excerpt(text)),
            hint: "to ask about a schedule say `--schedule EXPR`".to_owned(),
        },
        Some(name) => Failure::Unclear {
            message: format!("nothing says where job `{}` is defined", excerpt(name)),
            hint: "say `--config PATH`, a job file or a directory of them".to_owned(),
        },
    }
}

fn no_such_job(wanted: Option<&str>, loaded: &Loaded) -> Failure {
    const LISTED_MAX: usize = 10;
    if loaded.jobs.is_empty() {
        let hint = "the files define no jobs".to_owned();
        return Failure::NoSuchJob { wanted: wanted.map(excerpt), hint };
    }
    let near = wanted.and_then(|wanted| nearest(wanted, loaded.jobs.iter().map(Job::identity)));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let mut hint = String::from("the files define");
            for job in loaded.jobs.iter().take(LISTED_MAX) {
                let _ =
                    write!(hint, "\n  {}  ({})", job.identity(), job.timing.schedule().pattern());
            }
            if loaded.jobs.len() > LISTED_MAX {
                let _ = write!(hint, "\n  … {} in all", loaded.jobs.len());
            }
            hint
        }
    };
    match wanted {
        Some(wanted) => Failure::NoSuchJob { wanted: Some(excerpt(wanted)), hint },
        None => Failure::Unclear { message: "which job?".to_owned(), hint },
    }
}

fn bare_schedule(expression: &str, args: &JobArgs) -> Result<Timing, Failure> {
    let identity = args.identity.as_deref().unwrap_or(DEFAULT_IDENTITY);
    Placement::new(identity, Zone::utc()).map_err(Failure::argument("--identity"))?;
    let host =
        Host { name: args.read.host.as_deref(), machine_id: args.read.machine_id.as_deref() };
    let mut findings = Vec::new();
    let mut parser = TimingParser::new();
    let mut draft = kron_core::Draft::new(identity, host);
    parser.whole_expression(&mut draft, kron_core::Piece::whole(expression), &mut findings);
    let timing = parser.finish(draft, &mut findings);
    let source = kron_config::Source::new("--schedule", expression);
    let diagnostics: Vec<Diagnostic> =
        findings.into_iter().map(|finding| Diagnostic::in_source(&source, finding)).collect();
    show_diagnostics(&diagnostics, false);
    let timing = timing.ok_or(Failure::Definitions)?;
    let mut hashed = || {
        let other = parser.parse(expression, "another identity", host);
        other.is_ok_and(|other| other.schedule() != timing.schedule())
    };
    let spread = timing.placement().window().length() != Seconds::ZERO;
    if args.identity.is_none() && (spread || hashed()) {
        let _ = writeln!(
            std::io::stderr(),
            "note: without --identity this is decided for the identity `{DEFAULT_IDENTITY}`\n"
        );
    }
    Ok(timing)
}

/// Looks whether an expression can be scheduled, and shows what is wrong with it on standard error.
/// The zone is that of an expression that says none.
pub(crate) fn check_expression(
    name: &'static str,
    expression: &str,
    timezone: Option<&str>,
) -> Result<(), Failure> {
    let mut findings = Vec::new();
    let mut parser = TimingParser::new();
    let mut draft = kron_core::Draft::new(DEFAULT_IDENTITY, Host::default());
    parser.whole_expression(&mut draft, kron_core::Piece::whole(expression), &mut findings);
    if let Some(timezone) = timezone {
        let zone = parser.zone(kron_core::Piece::whole(timezone));
        draft.default_zone(&zone.map_err(Failure::argument("--timezone"))?);
    }
    let timing = parser.finish(draft, &mut findings);
    let source = kron_config::Source::new(name, expression);
    let diagnostics: Vec<Diagnostic> =
        findings.into_iter().map(|finding| Diagnostic::in_source(&source, finding)).collect();
    show_diagnostics(&diagnostics, false);
    timing.map(drop).ok_or(Failure::Definitions)
}

/// A time given as an argument, or else now.
pub(crate) fn time(name: &'static str, text: Option<&str>) -> Result<UtcSecond, Failure> {
    text.map_or_else(|| Ok(clock::now()), |text| parse_time(name, text))
}

/// A time given as an argument; what looks like half of one is completed in the hint.
fn parse_time(name: &'static str, text: &str) -> Result<UtcSecond, Failure> {
    UtcSecond::parse(text).map_err(|finding| {
        let spelled = text.replacen(' ', "T", 1);
        let completed = ["", "Z", ":00Z", "T00:00:00Z"]
            .iter()
            .find_map(|end| UtcSecond::parse(&format!("{spelled}{end}")).ok());
        Failure::argument(name)(match completed {
            Some(t) => finding.help(format!("times carry their offset, such as `{t}`")),
            None => finding,
        })
    })
}

/// The horizon that the arguments describe.
pub(crate) fn horizon(args: &HorizonArgs, default_length: Seconds) -> Result<Horizon, Failure> {
    let bucket = Seconds::parse(&args.bucket).map_err(Failure::argument("--bucket"))?;
    let from = match &args.from {
        Some(text) => parse_time("--from", text)?,
        None => clock::now_floored(3_600),
    };
    let (end, to) = match (&args.to, &args.for_duration) {
        (Some(text), _) => ("--to", parse_time("--to", text)?),
        (None, length) => {
            let length = match length {
                Some(text) => Seconds::parse(text).map_err(Failure::argument("--for"))?,
                None => default_length,
            };
            let to = from.checked_add(length.get_signed()).ok_or_else(|| {
                Failure::argument("--for")(Finding::validation(0..0, "that is after the year 9999"))
            })?;
            ("--for", to)
        }
    };
    let name = if to <= from { end } else { "--bucket" };
    Horizon::new(from, to, bucket).map_err(Failure::argument(name))
}
