//! Requests to others: one at a time, bounded in time, never further than they were sent.
//!
//! Redirects are not followed and proxies not used. Where only public addresses will do, the filter
//! is the resolver itself: what is connected to is what was looked at, so a name that means
//! something else a moment later is no way around it.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ureq::config::Config;
use ureq::http::{Response, Uri};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Body, Error};

/// Bytes that a file with a token or a secret may have.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// Whom a request may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Anybody.
    Any,
    /// Nobody on this machine or in a private network.
    Public,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) url: &'a str,
    /// What was configured.
    pub(crate) headers: &'a [(String, String)],
    /// What goes with what is sent.
    pub(crate) own_headers: &'a [(&'static str, String)],
    /// A file with a token that authorises the request.
    pub(crate) token_file: Option<&'a str>,
    pub(crate) timeout: Duration,
    pub(crate) reach: Reach,
}

/// Posts a JSON text.
///
/// # Errors
/// There was no answer, or nobody who may be asked; in words, without secrets.
pub(crate) fn post(request: &Request<'_>, json: &str) -> Result<Response<Body>, String> {
    let config = Agent::config_builder()
        .timeout_global(Some(request.timeout))
        // Nothing is taken from the daemon's environment.
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("krond/", env!("CARGO_PKG_VERSION")))
        .build();
    let resolver = Filter { reach: request.reach, inner: DefaultResolver::default() };
    let agent = Agent::with_parts(config, DefaultConnector::default(), resolver);
    let mut sent = agent.post(request.url).header("Content-Type", "application/json");
    for (name, value) in request.own_headers {
        sent = sent.header(*name, value);
    }
    for (name, value) in request.headers {
        sent = sent.header(name, value);
    }
    if let Some(path) = request.token_file {
        sent = sent.header("Authorization", format!("Bearer {}", secret(path)?));
    }
    sent.send(json).map_err(|error| error.to_string())
}

/// A token or secret, without the line's end.
///
/// # Errors
/// The file cannot be read, is empty, or too long to be one.
pub(crate) fn secret(path: &str) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot read `{path}`: {error}");
    let file = File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    let text = text.trim();
    if text.is_empty() || text.len() as u64 > SECRET_BYTES_MAX {
        return Err(format!("`{path}` holds no secret of 1 to {SECRET_BYTES_MAX} bytes"));
    }
    Ok(text.to_owned())
}

/// Resolves names, and lets through what may be reached.
#[derive(Debug)]
struct Filter {
    reach: Reach,
    inner: DefaultResolver,
}

impl Resolver for Filter {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        if self.reach == Reach::Any {
            return Ok(found);
        }
        // One private address among public ones is a trap, not a spare.
        match found.iter().find(|address| !is_public(address.ip())) {
            None => Ok(found),
            Some(private) => Err(Error::Other(
                format!(
                    "`{}` is not a public address; `allow_private = true` lets it be used",
                    private.ip()
                )
                .into(),
            )),
        }
    }
}

/// Whether an address is one of the whole world's.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        // Shared by carriers, and for measuring networks.
        || (a == 100 && b & 0xc0 == 64)
        || (a == 198 && b & 0xfe == 18)
        || (a == 192 && b == 0 && c == 0))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // The same machine by another spelling.
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    match segments {
        // Translated (64:ff9b::/96) and tunnelled (2002::/16) addresses carry others in them.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            is_public_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        // Only 2000::/3 was ever given out to the world; of it, not what is for documents.
        [first, second, ..] => {
            first & 0xe000 == 0x2000
                && !(first == 0x2001 && second == 0xdb8)
                && !(first == 0x2001 && second == 0)
                && first != 0x3fff
        }
    }
}

#[cfg(test)]
mod tests {
    use kron_testkit::waiting::PATIENCE;

    use super::*;

    #[test]
    fn only_addresses_of_the_whole_world_are_public() {
        for text in ["1.1.1.1", "8.8.8.8", "100.128.0.1", "2606:4700::1111", "2002:808:808::1"] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn a_private_address_is_refused_however_it_is_written_and_nobody_is_connected() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433"] {
            let url = format!("http://{host}:{port}/");
            let request = Request {
                url: &url,
                headers: &[],
                own_headers: &[],
                token_file: None,
                // A request that ends by its timeout shows nothing about the address.
                timeout: PATIENCE,
                reach: Reach::Public,
            };
            let error = post(&request, "{}").expect_err(host);
            assert!(
                error.contains("not a public address")
                    || error.contains("host not found")
                    || error.contains("lookup"),
                "{host}: {error}"
            );
        }
        let accepted = listener.accept();
        assert!(accepted.is_err(), "somebody was connected: {accepted:?}");
    }
}
