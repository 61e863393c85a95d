//! `kron explain`: one decision, step by step.

use std::io::Write;

use kron_config::{Action, SpoolDrop};
use kron_core::{
    Attempt, Coverage, Decision, DecisionRecord, Dst, Gap, Request, Schedule, Seconds, Side,
    Timing, Treatment, UtcSecond, tzdb_version,
};
use serde::Serialize;

use crate::args::{ExplainArgs, OutputFormat};
use crate::failure::{Exit, Failure};
use crate::jobs;
use crate::plot;
use crate::text::{clock_face, count, signed, weekday, write_table};

pub(crate) fn run(args: &ExplainArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let (timing, job) = jobs::select(&args.job)?;
    let at = jobs::time("--at", args.at.as_deref())?;
    let origin = job.as_ref().map(|job| job.origin.to_string());
    let action = job.as_ref().map(|job| &job.action);
    explain(&Subject { timing: &timing, origin, action }, at, ("--at", args.format), out)
}

/// What is explained.
pub(crate) struct Subject<'a> {
    pub(crate) timing: &'a Timing,
    /// Where it is defined.
    pub(crate) origin: Option<String>,
    /// What it does, where that is known here.
    pub(crate) action: Option<&'a Action>,
}

/// Explains the period at a time that was given as an argument.
pub(crate) fn explain(
    subject: &Subject<'_>,
    at: UtcSecond,
    (argument, format): (&'static str, OutputFormat),
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let timing = subject.timing;
    let Some(nominal) = period_at(timing, at) else {
        if format == OutputFormat::Text {
            writeln!(out, "nothing: this schedule has no period at or after {at}")?;
        }
        return Ok(Exit::No);
    };
    let placement = timing.placement();
    let (decision, attempts) = placement.trace(nominal).map_err(Failure::argument(argument))?;
    let coverage = placement.coverage(nominal).unwrap_or(Coverage {
        allowed: Vec::new(),
        allowed_seconds: 0,
        window_seconds: 1,
        acceptance: 0.0,
    });
    let story = Story { subject, timing, at, decision, attempts, coverage };
    match format {
        OutputFormat::Text => story.write_text(out)?,
        OutputFormat::Json => {
            serde_json::to_writer(&mut *out, &story.json())?;
            writeln!(out)?;
        }
    }
    Ok(Exit::Ok)
}

/// The period with the nominal time `t`, or whose window contains it, or else the next one.
fn period_at(timing: &Timing, t: UtcSecond) -> Option<UtcSecond> {
    let schedule = timing.schedule();
    let window = timing.placement().window();
    let latest = schedule.prev_at_or_before(t.saturating_add(window.lead().get_signed()));
    let contains = |nominal: &UtcSecond| {
        *nominal == t || window.bounds(*nominal).is_some_and(|(start, end)| start <= t && t <= end)
    };
    // Windows do not overlap, but neighbouring ones may touch; an exact nominal time comes first.
    if schedule.prev_at_or_before(t) == Some(t) {
        return Some(t);
    }
    latest.filter(contains).or_else(|| timing.due_after(t).next().map(|decision| decision.nominal))
}

struct Story<'a> {
    subject: &'a Subject<'a>,
    timing: &'a Timing,
    /// The time asked about.
    at: UtcSecond,
    decision: Decision,
    attempts: Vec<Attempt>,
    coverage: Coverage,
}

#[derive(Serialize)]
struct StoryRecord {
    at: UtcSecond,
    at_in_window: bool,
    dropped: Option<String>,
    expression: String,
    defined_at: Option<String>,
    /// The type that a job enqueues which runs nothing itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    enqueues: Option<String>,
    /// The task that a job puts into a spool which runs nothing itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    spools: Option<SpoolsRecord>,
    request: Request,
    decision: DecisionRecord,
    nominal_local: String,
    dst: DstRecord,
    coverage: CoverageRecord,
    candidates: Vec<CandidateRecord>,
}

#[derive(Serialize)]
struct SpoolsRecord {
    spool: String,
    #[serde(rename = "type")]
    task_type: String,
}

#[derive(Serialize)]
struct DstRecord {
    gap: &'static str,
    overlap: &'static str,
    treatment: &'static str,
    description: String,
}

#[derive(Serialize)]
struct CoverageRecord {
    allowed_seconds: u64,
    window_seconds: u64,
    share: f64,
    acceptance: f64,
    unschedulable_chance: f64,
    allowed: Vec<(UtcSecond, UtcSecond)>,
}

#[derive(Serialize)]
struct CandidateRecord {
    attempt: usize,
    u: Option<f64>,
    position: f64,
    offset_seconds: u64,
    candidate: UtcSecond,
    rejected_by: Option<String>,
}

impl Story<'_> {
    /// Whether the time asked about belongs to the period; otherwise the period is the next one.
    fn is_open(&self) -> bool {
        let decision = &self.decision;
        decision.nominal == self.at
            || (decision.window_start <= self.at && self.at <= decision.window_end)
    }

    /// The wall time that a gap swallowed between the time asked about and this period, if the
    /// schedule drops such times.
    fn dropped(&self) -> Option<String> {
        let schedule = self.timing.schedule();
        if schedule.dst().gap != Gap::Skip || self.at >= self.decision.nominal {
            return None;
        }
        let dst = Dst { gap: Gap::Shift, ..schedule.dst() };
        let shifting = Schedule::new(schedule.pattern().clone(), schedule.zone().clone(), dst);
        shifting
            .after(self.at.saturating_add(-1))
            .take_while(|t| *t < self.decision.nominal)
            .find_map(|t| match shifting.treatment(t) {
                Treatment::Shifted { asked, gap } => Some(format!(
                    "{} {} does not exist (clocks jump {gap}) and is dropped",
                    asked.date(),
                    clock_face(asked)
                )),
                _ => None,
            })
    }

    /// The type that the job enqueues, if it does.
    fn enqueues(&self) -> Option<&str> {
        match self.subject.action? {
            Action::Enqueue(enqueue) => Some(&enqueue.job_type),
            Action::Program(_) | Action::Shell { .. } | Action::Spool(_) => None,
        }
    }

    /// What the job puts into a spool, if it does.
    fn spools(&self) -> Option<&SpoolDrop> {
        match self.subject.action? {
            Action::Spool(drop) => Some(drop),
            Action::Program(_) | Action::Shell { .. } | Action::Enqueue(_) => None,
        }
    }

    fn json(&self) -> StoryRecord {
        let placement = self.timing.placement();
        let treatment = self.timing.schedule().treatment(self.decision.nominal);
        let dst = self.timing.schedule().dst();
        StoryRecord {
            at: self.at,
            at_in_window: self.is_open(),
            dropped: self.dropped(),
            expression: self.timing.to_string(),
            defined_at: self.subject.origin.clone(),
            enqueues: self.enqueues().map(str::to_owned),
            spools: self.spools().map(|drop| SpoolsRecord {
                spool: drop.spool.to_string(),
                task_type: drop.task_type.to_string(),
            }),
            request: Request::of(placement, self.decision.nominal),
            decision: DecisionRecord::of(placement, &self.decision),
            nominal_local: placement.zone().wall_at(self.decision.nominal).to_string(),
            dst: DstRecord {
                gap: dst.gap.as_str(),
                overlap: dst.overlap.as_str(),
                treatment: match treatment {
                    Treatment::Plain => "none",
                    Treatment::Shifted { .. } => "shifted",
                    Treatment::FirstOfTwo => "first",
                    Treatment::SecondOfTwo => "second",
                },
                description: treatment.to_string(),
            },
            coverage: CoverageRecord {
                allowed_seconds: self.coverage.allowed_seconds,
                window_seconds: self.coverage.window_seconds,
                share: self.coverage.share(),
                acceptance: self.coverage.acceptance,
                unschedulable_chance: self.coverage.unschedulable_chance(),
                allowed: self.coverage.allowed.clone(),
            },
            candidates: (1..)
                .zip(&self.attempts)
                .map(|(attempt, tried)| CandidateRecord {
                    attempt,
                    u: tried.u,
                    position: tried.position,
                    offset_seconds: tried.offset,
                    candidate: tried.candidate,
                    rejected_by: tried.rejection.as_ref().map(ToString::to_string),
                })
                .collect(),
        }
    }

    fn write_text(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let placement = self.timing.placement();
        let decision = &self.decision;
        let zone = placement.zone();
        let local = |t: UtcSecond| format!("{} {}", weekday(t, zone), zone.wall_at(t));
        writeln!(out, "{}: {}", placement.identity(), self.timing)?;
        if let Some(origin) = &self.subject.origin {
            writeln!(out, "defined at {origin}")?;
        }
        if let Some(job_type) = self.enqueues() {
            writeln!(out, "enqueues `{job_type}`")?;
        }
        if let Some(SpoolDrop { spool, task_type, .. }) = self.spools() {
            writeln!(out, "puts a task of type `{task_type}` into spool `{spool}`")?;
        }
        if self.timing.policy.suspend {
            writeln!(out, "suspended: until that is lifted, no period runs")?;
        }
        if !self.is_open() {
            writeln!(out, "at {} no period is open; this is the next one", self.at)?;
        }
        if let Some(dropped) = self.dropped() {
            writeln!(out, "before it, {dropped}: gap=skip")?;
        }
        let dst = self.timing.schedule().dst();
        let overlap = match dst.overlap {
            kron_core::Overlap::Auto if self.timing.schedule().pattern().allows_every_hour() => {
                "auto (both: every hour is allowed)".to_owned()
            }
            kron_core::Overlap::Auto => "auto (first: not every hour is allowed)".to_owned(),
            other => other.as_str().to_owned(),
        };
        writeln!(out)?;
        let mut rows: Vec<[String; 2]> = vec![
            ["nominal".into(), format!("{}   {}", decision.nominal, local(decision.nominal))],
            ["zone".into(), format!("{zone}, tzdb {}", tzdb_version())],
            [
                "daylight saving".into(),
                self.timing.schedule().treatment(decision.nominal).to_string(),
            ],
            ["".into(), format!("policy: gap={}, overlap={overlap}", dst.gap.as_str())],
            [
                "window".into(),
                format!(
                    "{}: {} to {}",
                    placement.window(),
                    local(decision.window_start),
                    local(decision.window_end)
                ),
            ],
            ["".into(), format!("{} to {}", decision.window_start, decision.window_end)],
            [
                "period key".into(),
                format!("{}, by the strategy `{}`", decision.period_key, placement.seed_strategy()),
            ],
            ["seed hash".into(), decision.seed_hash.to_string()],
            [
                "".into(),
                format!(
                    "sha256 of {:?}, {:?} and {:?}, joined by line feeds",
                    placement.identity(),
                    decision.period_key.as_str(),
                    placement.salt()
                ),
            ],
            ["distribution".into(), self.distribution_text()],
        ];
        rows.extend(self.constraint_rows());
        let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
        write_table(out, "  ", &rows)?;
        writeln!(out)?;
        self.write_candidates(out)?;
        writeln!(out)?;
        match decision.chosen {
            Some(chosen) => writeln!(
                out,
                "chosen: {chosen}   {}   {} from nominal",
                local(chosen),
                signed(chosen.since(decision.nominal))
            )?,
            None => writeln!(out, "unschedulable: {}", kron_core::UNSCHEDULABLE_REASON)?,
        }
        if placement.window().length() != Seconds::ZERO {
            writeln!(out)?;
            plot::write_window(out, placement, decision, &self.coverage)?;
        }
        Ok(())
    }

    fn distribution_text(&self) -> String {
        let placement = self.timing.placement();
        let distribution = placement.distribution();
        let parameters: Vec<String> = distribution
            .parameters(placement.window())
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if parameters.is_empty() {
            return distribution.name().to_owned();
        }
        format!("{}, {}", distribution.name(), parameters.join(", "))
    }

    fn constraint_rows(&self) -> Vec<[String; 2]> {
        let constraints = self.timing.placement().constraints();
        if constraints.is_empty() {
            return vec![["constraints".into(), "none".into()]];
        }
        let mut rows = Vec::new();
        for side in [Side::Only, Side::Avoid] {
            let clauses = constraints.clauses(side);
            if !clauses.is_empty() {
                rows.push([side.as_str().to_owned(), clauses.join("; ")]);
            }
        }
        let coverage = &self.coverage;
        rows.push([
            "allowed".into(),
            format!(
                "{} of {} of the window ({:.2} %); a candidate is accepted with probability {:.4}",
                coverage.allowed_seconds,
                count(coverage.window_seconds, "second"),
                coverage.share() * 100.0,
                coverage.acceptance,
            ),
        ]);
        rows
    }

    fn write_candidates(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let placement = self.timing.placement();
        if placement.window().length() == Seconds::ZERO {
            let verdict = match self.attempts.first().and_then(|attempt| attempt.rejection.as_ref())
            {
                None => "it is the only candidate, and allowed".to_owned(),
                Some(rejection) => format!("it is the only candidate, and rejected by {rejection}"),
            };
            writeln!(out, "no window: the nominal time is not sampled; {verdict}")?;
            return Ok(());
        }
        let mut rows = vec![
            ["try", "u", "position", "offset", "candidate", "", ""].map(str::to_owned).to_vec(),
        ];
        for (number, attempt) in (1..).zip(&self.attempts) {
            rows.push(vec![
                format!("{number}"),
                attempt.u.map_or(String::new(), |u| format!("{u:.6}")),
                format!("{:.6}", attempt.position),
                format!("+{}", Seconds::new(attempt.offset)),
                placement.zone().wall_at(attempt.candidate).to_string(),
                attempt.candidate.to_string(),
                match &attempt.rejection {
                    None => "chosen".to_owned(),
                    Some(rejection) => format!("rejected by {rejection}"),
                },
            ]);
        }
        write_table(out, "  ", &rows)?;
        Ok(())
    }
}
