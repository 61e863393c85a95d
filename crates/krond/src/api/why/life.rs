//! What the daemon went through: when it was not there, when a job was suspended, when the clock
//! was set, and when somebody moved a mark.

use kron_core::UtcSecond;
use kron_state::{Epoch, EpochEvent};

use super::words::length;
use super::{Facts, WhyView};
use crate::api::view::{ClockStepView, SpanView};

/// A stretch of time in which something was the case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// When it began; `None` when that is not known.
    pub(super) from: Option<UtcSecond>,
    /// When it ended; `None` when it has not.
    pub(super) to: Option<UtcSecond>,
    /// What made it so.
    pub(super) by: String,
    /// Whether it began a little later than is known.
    pub(super) is_vague: bool,
}

impl Span {
    /// Whether any of `from..=to` lies in it.
    pub(super) fn touches(&self, from: UtcSecond, to: UtcSecond) -> bool {
        self.from.is_none_or(|start| start <= to) && self.to.is_none_or(|end| from <= end)
    }

    fn view(&self) -> SpanView {
        SpanView { from: self.from, to: self.to, by: Some(self.by.clone()) }
    }

    /// `from … to … (30m)`.
    fn words(&self) -> String {
        match (self.from, self.to) {
            (Some(from), Some(to)) => {
                format!("from {from} to {to} ({})", length(to.since(from).max(0)))
            }
            (Some(from), None) => format!("since {from}"),
            (None, Some(to)) => format!("until {to}, nobody knows since when"),
            (None, None) => "for an unknown time".to_owned(),
        }
    }
}

/// When no daemon was there.
pub(super) fn down(epochs: &[Epoch]) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut begun: Option<Span> = None;
    let mut seen = false;
    for epoch in epochs {
        match &epoch.event {
            EpochEvent::Stop { mode } => {
                let by = format!("it had been stopped (`{mode}`)");
                begun = Some(Span { from: Some(epoch.at), to: None, by, is_vague: false });
            }
            EpochEvent::Crash { alive_until } => begun = Some(crashed(*alive_until)),
            EpochEvent::Start { previous_alive_until, .. } => {
                // Whoever starts again without having stopped had crashed; of the first in the log
                // nothing more is known than it says.
                let unsaid = (seen || previous_alive_until.is_some())
                    .then(|| crashed(*previous_alive_until));
                if let Some(span) = begun.take().or(unsaid) {
                    spans.push(Span { to: Some(epoch.at), ..span });
                }
                seen = true;
            }
            _ => {}
        }
    }
    spans.extend(begun);
    spans
}

fn crashed(alive_until: Option<UtcSecond>) -> Span {
    let by = "it had ended without saying so".to_owned();
    Span { from: alive_until, to: None, by, is_vague: true }
}

/// When somebody had suspended a job by hand.
pub(super) fn suspended(epochs: &[Epoch], identity: &str) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for epoch in epochs {
        match &epoch.event {
            EpochEvent::Suspend { identity: name } if name == identity => {
                spans.push(Span {
                    from: Some(epoch.at),
                    to: None,
                    by: "hand".to_owned(),
                    is_vague: false,
                });
            }
            EpochEvent::Resume { identity: name } if name == identity => match spans.last_mut() {
                Some(span) if span.to.is_none() => span.to = Some(epoch.at),
                // The log does not reach back to its beginning, or its definition suspended it.
                _ => spans.push(Span {
                    from: None,
                    to: Some(epoch.at),
                    by: "hand or definition".to_owned(),
                    is_vague: false,
                }),
            },
            _ => {}
        }
    }
    spans
}

impl Facts<'_> {
    /// Tells when the daemon was not there between two times.
    pub(super) fn tell_down(&self, from: UtcSecond, to: UtcSecond, view: &mut WhyView) {
        for mut span in down(self.epochs) {
            self.date_crash(&mut span);
            if !span.touches(from, to) {
                continue;
            }
            let mut why = span.by.clone();
            if let Some(from) = span.from.filter(|_| span.is_vague) {
                why = format!("{why}, and {from} is its last sign of life");
            }
            view.sentences.push(format!("krond was down {}: {why}.", span.words()));
            view.down.push(span.view());
        }
    }

    /// A sign of life is left once a minute. What the daemon wrote into the job's own history
    /// before it started again tells more.
    fn date_crash(&self, span: &mut Span) {
        let Some(back) = span.to.filter(|_| span.is_vague) else { return };
        let written = self.document.history.iter().filter_map(|entry| match entry.run {
            // The end of a run is dated by its supervisor, which lives on.
            Some(_) => entry.started_at,
            None => entry.completed_at,
        });
        span.from = span.from.max(written.filter(|at| *at < back).max());
    }

    /// Tells when the clock was set between two times.
    pub(super) fn tell_clock(&self, from: UtcSecond, to: UtcSecond, view: &mut WhyView) {
        for epoch in self.epochs {
            let (before, after, held) = match epoch.event {
                EpochEvent::ClockStep { from, to } => (from, to, false),
                EpochEvent::ClockHeld { from, to } => (from, to, true),
                _ => continue,
            };
            // A step back repeats a stretch of time, a step ahead leaves one out.
            let (low, high) = (before.min(after), before.max(after));
            if high < from || to < low {
                continue;
            }
            let step = after.since(before);
            let direction = if step < 0 { "back" } else { "ahead" };
            let mut sentence =
                format!("The clock went {direction} by {}, from {before} to {after}", length(step));
            if held {
                sentence.push_str(", and was not believed at once");
            }
            view.sentences.push(format!("{sentence}."));
            view.clock_steps.push(ClockStepView { from: before, to: after });
        }
    }

    /// Tells of a mark that somebody moved after `since`.
    pub(super) fn tell_resets(&self, since: UtcSecond, view: &mut WhyView) {
        for epoch in self.epochs.iter().filter(|epoch| epoch.at >= since) {
            let EpochEvent::Reset { identity, from, to } = &epoch.event else { continue };
            if identity != self.identity {
                continue;
            }
            let mark = |mark: &Option<UtcSecond>| {
                mark.map_or_else(|| "nothing".to_owned(), |mark| mark.to_string())
            };
            view.sentences.push(format!(
                "Somebody reset the job's mark at {}, from {} to {}.",
                epoch.at,
                mark(from),
                mark(to)
            ));
        }
    }

    /// Tells of a suspension.
    pub(super) fn tell_suspension(&self, span: &Span, view: &mut WhyView) {
        view.sentences.push(format!("The job was suspended by {} {}.", span.by, span.words()));
        view.suspended.push(span.view());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> UtcSecond {
        UtcSecond::parse(&format!("2026-03-01T{text}Z")).unwrap()
    }

    fn epoch(when: &str, event: EpochEvent) -> Epoch {
        Epoch { at: at(when), event }
    }

    fn start(when: &str, alive: Option<&str>) -> Epoch {
        let event = EpochEvent::Start {
            version: "1".to_owned(),
            pid: 1,
            boot_id: "b".to_owned(),
            previous_alive_until: alive.map(at),
        };
        epoch(when, event)
    }

    #[test]
    fn stops_and_crashes_are_down_times() {
        let log = [
            start("01:00:00", None),
            epoch("02:00:00", EpochEvent::Stop { mode: "leave".to_owned() }),
            start("02:30:00", Some("02:00:00")),
            epoch("04:00:00", EpochEvent::Crash { alive_until: Some(at("03:30:00")) }),
            start("04:00:00", Some("03:30:00")),
            start("05:00:00", Some("04:10:00")),
            start("06:00:00", None),
        ];
        let spans: Vec<String> = down(&log).iter().map(Span::words).collect();
        assert_eq!(
            spans,
            [
                "from 2026-03-01T02:00:00Z to 2026-03-01T02:30:00Z (30m)",
                "from 2026-03-01T03:30:00Z to 2026-03-01T04:00:00Z (30m)",
                "from 2026-03-01T04:10:00Z to 2026-03-01T05:00:00Z (50m)",
                "until 2026-03-01T06:00:00Z, nobody knows since when",
            ]
        );
        assert_eq!(down(&log[..1]), []);
        assert_eq!(down(&log[..2])[0].words(), "since 2026-03-01T02:00:00Z");
    }

    #[test]
    fn suspensions_are_of_one_job() {
        let suspend = |identity: &str| EpochEvent::Suspend { identity: identity.to_owned() };
        let resume = |identity: &str| EpochEvent::Resume { identity: identity.to_owned() };
        let log = [
            epoch("01:00:00", resume("a")),
            epoch("02:00:00", suspend("a")),
            epoch("02:10:00", suspend("b")),
            epoch("02:20:00", resume("b")),
            epoch("03:00:00", resume("a")),
            epoch("04:00:00", suspend("a")),
        ];
        let spans: Vec<String> = suspended(&log, "a").iter().map(Span::words).collect();
        assert_eq!(
            spans,
            [
                "until 2026-03-01T01:00:00Z, nobody knows since when",
                "from 2026-03-01T02:00:00Z to 2026-03-01T03:00:00Z (1h)",
                "since 2026-03-01T04:00:00Z",
            ]
        );
    }
}
