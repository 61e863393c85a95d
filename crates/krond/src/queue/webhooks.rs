//! Telling webhooks what became of jobs.
//!
//! What is to be told was written with what happened; here it is sent, at least once, each receiver
//! by threads of its own, so that one that is slow or gone keeps nobody else waiting and no job at
//! all. An answer of 200 to 299 is a delivery; anything else is tried again, four times in all, and
//! every try is logged. Requests are signed where there is a secret.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use kron_config::QueueWebhook;
use kron_core::Category;
use kron_queue::{
    Change, ClaimDelivery, Delivery, DeliveryStatus, FinishDelivery, Interest, Queue, Timestamp,
};
use sha2::Sha256;

use crate::daemon::{clock, worker};
use crate::log::{Log, told};
use crate::machine::{Entry, Level};
use crate::metrics::QueueMetrics;
use crate::queue::time::Believed;
use crate::web::{self, Reach, Request};

/// Requests that one receiver gets at once.
const AT_ONCE: usize = 2;
/// How long a claimed delivery is kept from others beyond the time that its request may take.
const LEASE_MARGIN_MS: i64 = 60_000;
/// How long nobody looks when nothing is told; changes are told.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// How long a sender rests when the database refuses it.
const REST: Duration = Duration::from_secs(5);
/// Bytes of an answer that are read, so that its connection ends in order.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// All receivers.
#[derive(Clone)]
pub(crate) struct Webhooks {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Queue,
    state: Mutex<State>,
    told: Condvar,
    metrics: Arc<QueueMetrics>,
    clock: Arc<Believed>,
    log: Log,
}

#[derive(Default)]
struct State {
    receivers: HashMap<String, Arc<QueueWebhook>>,
    threads: HashMap<String, usize>,
    /// How often something new was to be told.
    news: u64,
}

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

impl Webhooks {
    pub(crate) fn start(
        queue: &Queue,
        receivers: &[QueueWebhook],
        metrics: Arc<QueueMetrics>,
        clock: Arc<Believed>,
        log: Log,
    ) -> Webhooks {
        let state = Mutex::new(State::default());
        let shared = Arc::new(Shared {
            queue: queue.clone(),
            state,
            told: Condvar::new(),
            metrics,
            clock,
            log,
        });
        let observed = Arc::downgrade(&shared);
        queue.observe(move |changes| {
            let Some(shared) = observed.upgrade() else { return Interest::Over };
            if changes.iter().any(|change| matches!(change, Change::Webhook)) {
                shared.wake();
            }
            Interest::More
        });
        let webhooks = Webhooks { shared };
        webhooks.reconfigure(receivers);
        webhooks
    }

    /// Other receivers are in force. What is pending for one that is gone stays, in case it comes
    /// back.
    pub(crate) fn reconfigure(&self, receivers: &[QueueWebhook]) {
        let mut state = self.shared.lock();
        state.receivers = receivers
            .iter()
            .map(|webhook| (webhook.name.clone(), Arc::new(webhook.clone())))
            .collect();
        for name in receivers.iter().map(|webhook| &webhook.name) {
            let running = state.threads.get(name).copied().unwrap_or_default();
            for _ in running..AT_ONCE {
                let (shared, target) = (self.shared.clone(), name.clone());
                match worker::spawn("webhook".to_owned(), move || shared.serve(&target)) {
                    Ok(_) => *state.threads.entry(name.clone()).or_default() += 1,
                    Err(error) => {
                        self.shared.log.write(&Entry::new(Level::Error, "webhook_failed").error(
                            Category::System,
                            "start a thread",
                            &error.to_string(),
                        ));
                    }
                }
            }
        }
        drop(state);
        self.shared.wake();
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.lock().news += 1;
        self.told.notify_all();
    }

    /// Sends one receiver what it has to be told, for as long as it is one.
    fn serve(&self, target: &str) {
        loop {
            let (receiver, news) = {
                let mut state = self.lock();
                let Some(receiver) = state.receivers.get(target).cloned() else {
                    // Whoever comes back gets a thread anew.
                    if let Some(threads) = state.threads.get_mut(target) {
                        *threads -= 1;
                    }
                    return;
                };
                (receiver, state.news)
            };
            let timeout_ms = super::ms(receiver.timeout);
            let claim = ClaimDelivery {
                target: target.to_owned(),
                lease_ms: timeout_ms.saturating_add(LEASE_MARGIN_MS),
                now: self.clock.now().wall,
            };
            match self.queue.call(claim) {
                Ok(next) => match next.delivery {
                    Some(delivery) => self.deliver(&receiver, &delivery),
                    None => self.wait(news, next.next_at),
                },
                Err(error) => {
                    if self.queue.is_stopped() {
                        return;
                    }
                    self.log.write(&Entry::new(Level::Error, "webhook_failed").error(
                        Category::Persistence,
                        "claim a delivery",
                        &told(&error),
                    ));
                    self.wait_for(news, REST);
                }
            }
        }
    }

    /// Sleeps until something new is to be told, or the time of the next try has come.
    fn wait(&self, news: u64, next_at: Option<Timestamp>) {
        let until = next_at.map_or(LOOK_INTERVAL, |at| {
            let ms = at.unix_ms().saturating_sub(self.clock.now().wall.unix_ms());
            Duration::from_millis(u64::try_from(ms).unwrap_or_default())
        });
        self.wait_for(news, until.min(LOOK_INTERVAL));
    }

    fn wait_for(&self, news: u64, time: Duration) {
        let state = self.lock();
        // Whether it was told or the time is over, it looks again.
        let _ = self.told.wait_timeout_while(state, time, |state| state.news == news);
    }

    fn deliver(&self, receiver: &QueueWebhook, delivery: &Delivery) {
        let (http_status, error) = match send(receiver, delivery) {
            Ok(status) if (200..300).contains(&status) => (Some(status), None),
            Ok(status) => (Some(status), Some(format!("the answer was {status}"))),
            Err(why) => (None, Some(why)),
        };
        let failed = error.clone();
        let finish = FinishDelivery {
            delivery_id: delivery.delivery_id,
            http_status,
            error,
            now: self.clock.now().wall,
        };
        let result = self.queue.call(finish);
        if let Some(why) = failed {
            self.metrics.webhook_failures.fetch_add(1, Ordering::Relaxed);
            let level = match result {
                Ok(DeliveryStatus::Failed) => Level::Error,
                _ => Level::Warn,
            };
            self.log.write(
                &Entry::new(level, "webhook_failed")
                    .with("webhook", receiver.name.as_str())
                    .shown("delivery_id", delivery.delivery_id)
                    .with("attempt", delivery.attempts)
                    .error(Category::Execution, "deliver", &why),
            );
        }
    }
}

fn send(receiver: &QueueWebhook, delivery: &Delivery) -> Result<u16, String> {
    use std::io::Read as _;
    let body = delivery.payload.to_string();
    let mut own = vec![
        ("X-Kron-Delivery", delivery.delivery_id.to_string()),
        ("X-Kron-Event", delivery.event.clone()),
        ("X-Kron-Attempt", delivery.attempts.to_string()),
    ];
    if let Some(path) = &receiver.secret_file {
        let at = clock::milliseconds().unix_ms() / 1_000;
        own.push(("X-Kron-Signature", sign(web::secret(path)?.as_bytes(), at, &body)?));
    }
    let request = Request {
        url: &receiver.url,
        headers: &receiver.headers,
        own_headers: &own,
        token_file: None,
        timeout: Duration::from_secs(receiver.timeout.get()),
        reach: if receiver.allow_private { Reach::Any } else { Reach::Public },
    };
    let mut answer = web::post(&request, &body)?;
    let _ = std::io::copy(
        &mut answer.body_mut().as_reader().take(ANSWER_BYTES_MAX),
        &mut std::io::sink(),
    );
    Ok(answer.status().as_u16())
}

/// `t=<seconds>,v1=<hex>`: the HMAC-SHA256 of the time, a dot and the body, so that neither can be
/// changed, nor an old request be sent again unnoticed.
fn sign(secret: &[u8], at: i64, body: &str) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|error| error.to_string())?;
    mac.update(at.to_string().as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    let hex: String =
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("t={at},v1={hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_hmac_of_time_and_body() {
        // Computed with another implementation: printf '1700000000.{"a":1}' | openssl dgst -sha256
        // -hmac secret
        let expected = "t=1700000000,\
            v1=49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686";
        assert_eq!(sign(b"secret", 1_700_000_000, "{\"a\":1}").unwrap(), expected);
    }
}
