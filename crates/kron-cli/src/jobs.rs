//! Jobs from the files and flags people give.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use kron_config::{CrontabOwner, Diagnostic, Format, Job, Loaded, Loader, Options, files};
use kron_core::finding::nearest;
use kron_core::{Finding, Horizon, Host, Seconds, Timing, TimingParser, UtcSecond, Zone};

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
            loader.load(&files::read(&file)?, &format);
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

/// Shows diagnostics on standard error.
pub(crate) fn show_diagnostics(diagnostics: &[Diagnostic], cut_short: bool) {
    let mut err = std::io::stderr().lock();
    for diagnostic in diagnostics {
        let _ = writeln!(err, "{diagnostic}\n");
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

fn no_such_job(wanted: Option<&str>, loaded: &Loaded) -> Failure {
    const LISTED_MAX: usize = 10;
    let names = || loaded.jobs.iter().map(Job::identity);
    let near = wanted.and_then(|wanted| nearest(wanted, names()));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None if loaded.jobs.is_empty() => "the files define no jobs".to_owned(),
        None => {
            let mut listed: Vec<String> =
                names().take(LISTED_MAX).map(|name| format!("`{name}`")).collect();
            if loaded.jobs.len() > LISTED_MAX {
                listed.push(format!("… ({} in all)", loaded.jobs.len()));
            }
            format!("the files define {}", listed.join(", "))
        }
    };
    Failure::NoSuchJob { wanted: wanted.unwrap_or("named on the command line").to_owned(), hint }
}

fn bare_schedule(expression: &str, args: &JobArgs) -> Result<Timing, Failure> {
    let identity = args.identity.as_deref().unwrap_or(DEFAULT_IDENTITY);
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
    let identity_matters =
        timing.placement().window().length() != Seconds::ZERO || expression.contains('H');
    if args.identity.is_none() && identity_matters {
        let _ = writeln!(
            std::io::stderr(),
            "note: without --identity this is decided for the identity `{DEFAULT_IDENTITY}`\n"
        );
    }
    Ok(timing)
}

/// A time given as an argument, or else now.
pub(crate) fn time(name: &'static str, text: Option<&str>) -> Result<UtcSecond, Failure> {
    match text {
        None => Ok(clock::now()),
        Some(text) => UtcSecond::parse(text).map_err(Failure::argument(name)),
    }
}

/// The horizon that the arguments describe.
pub(crate) fn horizon(args: &HorizonArgs, default_length: Seconds) -> Result<Horizon, Failure> {
    let bucket = Seconds::parse(&args.bucket).map_err(Failure::argument("--bucket"))?;
    let from = match &args.from {
        Some(text) => UtcSecond::parse(text).map_err(Failure::argument("--from"))?,
        None => clock::now_floored(3_600),
    };
    let to = match (&args.to, &args.for_duration) {
        (Some(text), _) => UtcSecond::parse(text).map_err(Failure::argument("--to"))?,
        (None, length) => {
            let length = match length {
                Some(text) => Seconds::parse(text).map_err(Failure::argument("--for"))?,
                None => default_length,
            };
            from.checked_add(length.get_signed()).ok_or_else(|| {
                Failure::argument("--for")(Finding::validation(0..0, "that is after the year 9999"))
            })?
        }
    };
    Horizon::new(from, to, bucket).map_err(Failure::argument("--from, --to, --bucket"))
}
