//! `kron queue group`: jobs that belong together.

use std::io::Write;

use kron_core::Finding;
use kron_queue::Group;
use kron_queue::limits::JOBS_PER_CALL_MAX;
use kron_queue_api::{CancelledGroupView, GroupView, NewGroupView};

use crate::args::{
    GroupAddArgs, GroupLsArgs, GroupModeWord, GroupShowArgs, OnFailureWord, OutputFormat,
    QueueGroupArgs, QueueGroupCommand,
};
use crate::client::Client;
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::queue::body::Body;
use crate::queue::ids::Short;
use crate::queue::input::Batches;
use crate::queue::lookup;
use crate::queue::pages::{GROUP_PAGE_ROWS, Pages};
use crate::queue::words::{age, moment, one_line};
use crate::text::{count, write_json, write_table};

pub(crate) fn run(args: &QueueGroupArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    match &args.command {
        QueueGroupCommand::Add(args) => add(args, out),
        QueueGroupCommand::Ls(args) => ls(args, out),
        QueueGroupCommand::Show(args) => show(args, out),
        QueueGroupCommand::Cancel(args) => cancel(args, out),
    }
}

fn add(args: &GroupAddArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let mut batches = Batches::open(&args.file)?;
    let refused = |message: String| Failure::argument("FILE")(Finding::validation(0..0, message));
    let Some(batch) = batches.next()? else {
        return Err(refused("there is no job in it".to_owned()));
    };
    if batches.next()?.is_some() {
        let most = format!("a group has {JOBS_PER_CALL_MAX} jobs at most, and as many as fit into");
        return Err(refused(format!("{most} one request")));
    }
    let mode = match args.mode {
        GroupModeWord::Sequential => "sequential",
        GroupModeWord::Parallel => "parallel",
    };
    let on_failure = match args.on_failure {
        OnFailureWord::Stop => "stop",
        OnFailureWord::Continue => "continue",
        OnFailureWord::Skip => "skip",
    };
    let body = Body::new()
        .field("name", args.name.as_ref())?
        .field("mode", Some(mode))?
        .field("on_failure", Some(on_failure))?
        .raw("jobs", Some(&batch.json()))
        .finish();
    let (group, _): (NewGroupView, bool) =
        client.make("job-groups", body).map_err(|error| batch.blame(error))?;
    match args.format {
        OutputFormat::Json => write_json(out, &group)?,
        OutputFormat::Text => writeln!(out, "{}", group.group.group_id)?,
    }
    Ok(Exit::Ok)
}

fn ls(args: &GroupLsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let mut pages = Pages::new(&client, "job-groups").page_rows(GROUP_PAGE_ROWS);
    let groups: Vec<Group> = pages.rows(args.limit as usize)?;
    match args.format {
        OutputFormat::Json => {
            for group in &groups {
                write_json(out, group)?;
            }
        }
        OutputFormat::Text if groups.is_empty() => writeln!(out, "there is no group")?,
        OutputFormat::Text => {
            let short = Short::among(groups.iter().map(|group| group.group_id));
            let header = ["group", "name", "mode", "on failure", "status", "made"];
            let mut rows = vec![header.map(str::to_owned).to_vec()];
            rows.extend(groups.iter().map(|group| {
                vec![
                    short.of(&group.group_id),
                    group.name.as_deref().map_or_else(|| "-".to_owned(), one_line),
                    group.mode.to_string(),
                    group.on_failure.to_string(),
                    group.status.to_string(),
                    age(group.created_at),
                ]
            }));
            write_table(out, "", &rows)?;
            if !pages.is_over() {
                writeln!(out, "\nthere are more, which `--limit N` shows")?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn show(args: &GroupShowArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let id = lookup::group(&client, &args.group)?;
    let view: GroupView = client.get(&format!("job-groups/{id}"))?;
    if args.format == OutputFormat::Json {
        write_json(out, &view)?;
        return Ok(Exit::Ok);
    }
    let group = &view.group;
    let name =
        group.name.as_deref().map_or_else(String::new, |name| format!(" {}", one_line(name)));
    writeln!(out, "{id}{name}: {}", group.status)?;
    writeln!(
        out,
        "{}, on failure {}, made {}\n",
        group.mode,
        group.on_failure,
        moment(group.created_at, clock::now())
    )?;
    let short = Short::among(view.members.iter().map(|member| member.job_id));
    let mut rows = vec![["", "job", "type", "state", "retries"].map(str::to_owned).to_vec()];
    rows.extend(view.members.iter().map(|member| {
        vec![
            (member.group_index + 1).to_string(),
            short.of(&member.job_id),
            member.job_type.clone(),
            member.state.to_string(),
            member.attempt.to_string(),
        ]
    }));
    write_table(out, "", &rows)?;
    Ok(Exit::Ok)
}

fn cancel(args: &GroupShowArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let client = Client::of(&args.daemon);
    let id = lookup::group(&client, &args.group)?;
    let view: CancelledGroupView = client.delete(&format!("job-groups/{id}"))?;
    match args.format {
        OutputFormat::Json => write_json(out, &view)?,
        OutputFormat::Text => writeln!(
            out,
            "{id}: {} cancelled, {} being ended",
            count(view.cancelled.into(), "job"),
            view.requested
        )?,
    }
    Ok(Exit::Ok)
}
