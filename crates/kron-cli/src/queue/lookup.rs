//! From what people type to what they mean: ids, the ends of ids, and names.
//!
//! The API knows whole ids. Anything else is looked for here, in the lists of the API and newest
//! first, no further than [`LOOKED_AT_MAX`] rows. Where there are more rows than that, only a part
//! of an id that is long enough to be nobody else's by chance is believed.

use kron_core::finding::{excerpt, nearest};
use kron_queue::{Group, GroupId, Job, JobId, JobRun, RunId, Schedule, Template};
use kron_queue_api::PageView;
use serde::de::DeserializeOwned;

use super::ids::{PART_DIGITS_MIN, Part, Short};
use super::pages::{GROUP_PAGE_ROWS, Pages};
use super::words::age;
use crate::client::{Client, ClientError};
use crate::failure::Failure;

/// Rows of a list that are looked at.
const LOOKED_AT_MAX: usize = 20_000;
/// Groups that are looked at.
const GROUPS_LOOKED_AT_MAX: usize = 2_000;
/// Digits that are believed although not every row was looked at.
const SURE_DIGITS: usize = 8;
/// How many are named when more than one is meant.
const LISTED_MAX: usize = 5;

/// A run and its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobOrRun {
    Job(JobId),
    Run(RunId),
}

/// The id of a job. Whether a whole id means one is left to whoever uses it.
pub(crate) fn job(client: &Client, text: &str) -> Result<JobId, Failure> {
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => search(text, "job", jobs(client)),
    }
}

/// A job, or a run by its own id.
pub(crate) fn job_or_run(client: &Client, text: &str) -> Result<JobOrRun, Failure> {
    if let Ok(id) = text.parse::<JobId>() {
        return match client.get::<Job>(&format!("jobs/{id}")) {
            Ok(_) => Ok(JobOrRun::Job(id)),
            // Then it is a run, or the refusal of that says enough.
            Err(error) if error.is_refusal("no-job") => Ok(JobOrRun::Run(RunId(id.0))),
            Err(error) => Err(error.into()),
        };
    }
    match search(text, "job", jobs(client)) {
        Ok(id) => Ok(JobOrRun::Job(id)),
        Err(Failure::NoSuch { .. }) => {
            let runs = List {
                pages: Pages::new(client, "job-runs"),
                looked_at_max: LOOKED_AT_MAX,
                id: |run: &JobRun| run.run_id,
                tell: |run: &JobRun| format!("run of job {}", run.job_id),
            };
            search(text, "job or run", runs).map(JobOrRun::Run)
        }
        Err(failure) => Err(failure),
    }
}

/// The run that is meant, if the job has one.
pub(crate) fn run(client: &Client, text: &str) -> Result<(JobOrRun, Option<JobRun>), Failure> {
    let meant = job_or_run(client, text)?;
    let run = match meant {
        JobOrRun::Run(id) => Some(client.get(&format!("job-runs/{id}"))?),
        JobOrRun::Job(id) => run_of(client, id)?,
    };
    Ok((meant, run))
}

/// The run of a job, if it has one.
pub(crate) fn run_of(client: &Client, id: JobId) -> Result<Option<JobRun>, ClientError> {
    let page: PageView<JobRun> = client.get(&format!("jobs/{id}/runs"))?;
    Ok(page.items.into_iter().next())
}

pub(crate) fn group(client: &Client, text: &str) -> Result<GroupId, Failure> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let groups = List {
        pages: Pages::new(client, "job-groups").page_rows(GROUP_PAGE_ROWS),
        looked_at_max: GROUPS_LOOKED_AT_MAX,
        id: |group: &Group| group.group_id,
        tell: |group: &Group| {
            let name = group.name.as_deref().unwrap_or("without a name");
            format!("{name}, {}", group.status)
        },
    };
    search(text, "group", groups)
}

/// A template by its name, its id or an end of that.
pub(crate) fn template(client: &Client, text: &str) -> Result<Template, Failure> {
    let all: Vec<Template> = Pages::new(client, "job-templates").rows(LOOKED_AT_MAX)?;
    named(text, "template", all, |template| (template.template_id.to_string(), &template.name))
}

/// A schedule by its name, its id or an end of that.
pub(crate) fn schedule(client: &Client, text: &str) -> Result<Schedule, Failure> {
    let all: Vec<Schedule> = Pages::new(client, "schedules").rows(LOOKED_AT_MAX)?;
    named(text, "schedule", all, |schedule| (schedule.schedule_id.to_string(), &schedule.name))
}

/// A list, how its rows are called, and what is said of them.
struct List<'a, T, I> {
    pages: Pages<'a>,
    looked_at_max: usize,
    id: fn(&T) -> I,
    tell: fn(&T) -> String,
}

fn jobs(client: &Client) -> List<'_, Job, JobId> {
    List {
        pages: Pages::new(client, "jobs"),
        looked_at_max: LOOKED_AT_MAX,
        id: |job| job.job_id,
        tell: |job| format!("{}, {}, made {}", job.job_type, job.state, age(job.created_at)),
    }
}

/// Looks for the one row whose id begins or ends so.
fn search<T: DeserializeOwned, I: Copy + std::fmt::Display>(
    text: &str,
    noun: &'static str,
    list: List<'_, T, I>,
) -> Result<I, Failure> {
    let List { mut pages, looked_at_max, id, tell } = list;
    let part = part(text, noun)?;
    let (mut found, mut looked_at): (Vec<T>, usize) = (Vec::new(), 0);
    while let Some(page) = pages.next::<T>(looked_at_max - looked_at)? {
        looked_at += page.len();
        found.extend(page.into_iter().filter(|row| part.means(&id(row))));
    }
    match &found[..] {
        [] => {
            let hint = match pages.is_over() {
                true => "`kron queue ls` lists jobs, and the last digits of their ids".to_owned(),
                false => format!("the newest {looked_at} were looked at; others need the whole id"),
            };
            Err(Failure::NoSuch { noun, wanted: excerpt(text), hint })
        }
        [one] if pages.is_over() || part.digit_count() >= SURE_DIGITS => Ok(id(one)),
        [one] => Err(Failure::Unclear {
            message: format!("`{text}` may mean more than one {noun}"),
            hint: format!(
                "one of the newest {looked_at} is {}; there are more: give {SURE_DIGITS} digits",
                id(one)
            ),
        }),
        several => {
            let short = Short::among(several.iter().map(id));
            let lines = several.iter().map(|row| format!("{}  {}", short.of(&id(row)), tell(row)));
            Err(ambiguous(text, noun, &lines.collect::<Vec<_>>()))
        }
    }
}

fn part(text: &str, noun: &'static str) -> Result<Part, Failure> {
    Part::of(text).ok_or_else(|| Failure::Unclear {
        message: format!("`{}` is not the id of a {noun}", excerpt(text)),
        hint: format!(
            "an id is given whole, or by its first or last digits, {PART_DIGITS_MIN} or more"
        ),
    })
}

fn ambiguous(text: &str, noun: &str, lines: &[String]) -> Failure {
    let mut hint = String::from("give more digits:");
    for line in lines.iter().take(LISTED_MAX) {
        hint.push_str("\n  ");
        hint.push_str(line);
    }
    if lines.len() > LISTED_MAX {
        hint.push_str(&format!("\n  … {} in all", lines.len()));
    }
    let count = lines.len();
    Failure::Unclear { message: format!("`{text}` means {count} {noun}s"), hint }
}

/// Looks for what has this name, or else this id, or else an id that begins or ends so.
fn named<T>(
    text: &str,
    noun: &'static str,
    mut all: Vec<T>,
    told: fn(&T) -> (String, &str),
) -> Result<T, Failure> {
    let position = |is: &dyn Fn(&T) -> bool| all.iter().position(is);
    let whole = text.to_ascii_lowercase();
    let exact =
        position(&|row| told(row).1 == text).or_else(|| position(&|row| told(row).0 == whole));
    if let Some(at) = exact {
        return Ok(all.swap_remove(at));
    }
    let mut found: Vec<usize> = Vec::new();
    if let Some(part) = Part::of(text) {
        let means = |at: &usize| part.means(&told(&all[*at]).0);
        found = (0..all.len()).filter(means).collect();
    }
    match found[..] {
        [at] => Ok(all.swap_remove(at)),
        [] => {
            let near = nearest(text, all.iter().map(|row| told(row).1));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("`kron {noun} ls` lists them"),
            };
            Err(Failure::NoSuch { noun, wanted: excerpt(text), hint })
        }
        _ => {
            let short = Short::among(found.iter().map(|&at| told(&all[at]).0));
            let lines = found.iter().map(|&at| {
                let (id, name) = told(&all[at]);
                format!("{}  {name}", short.of(&id))
            });
            Err(ambiguous(text, noun, &lines.collect::<Vec<_>>()))
        }
    }
}
