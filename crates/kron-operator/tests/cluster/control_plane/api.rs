//! Requests to an API server, one at a time, with what came back as JSON.

use kron_testkit::waiting::PATIENCE;
use serde_json::Value;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, http};

/// An API server as one user sees it.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    agent: Agent,
    base: String,
    authorization: String,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Null where the answer was not JSON.
    pub(crate) body: Value,
}

impl Answer {
    /// The body of an answer that must have this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:#}", self.body);
        self.body
    }
}

impl Api {
    pub(super) fn new(port: u16, certificates: &str, token: &str) -> Api {
        let roots: Vec<Certificate<'static>> =
            CertificateDer::pem_slice_iter(certificates.as_bytes())
                .map(|certificate| Certificate::from_der(certificate.unwrap().as_ref()).to_owned())
                .collect();
        let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&roots)).build();
        Api::with(format!("https://127.0.0.1:{port}"), tls, token)
    }

    /// The API server by way of a plain HTTP address.
    pub(crate) fn through(address: std::net::SocketAddr, token: &str) -> Api {
        Api::with(format!("http://{address}"), TlsConfig::default(), token)
    }

    fn with(base: String, tls: TlsConfig, token: &str) -> Api {
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .proxy(None)
            .build();
        Api { agent: config.new_agent(), base, authorization: format!("Bearer {token}") }
    }

    /// Reads an object or a list.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", None).unwrap_or_else(|error| panic!("GET {path}: {error}"))
    }

    /// Reads from a server that may not be there.
    pub(crate) fn try_get(&self, path: &str) -> Option<Answer> {
        self.send("GET", path, "", None).ok()
    }

    /// Creates an object.
    #[track_caller]
    pub(crate) fn post(&self, path: &str, object: &Value) -> Answer {
        self.send("POST", path, "application/json", Some(object))
            .unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    /// Changes an object by a merge patch.
    #[track_caller]
    pub(crate) fn patch(&self, path: &str, patch: &Value) -> Answer {
        self.send("PATCH", path, "application/merge-patch+json", Some(patch))
            .unwrap_or_else(|error| panic!("PATCH {path}: {error}"))
    }

    /// Deletes an object.
    #[track_caller]
    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, "", None).unwrap_or_else(|error| panic!("DELETE {path}: {error}"))
    }

    /// Any request; an error means that there was no answer.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ureq::Error> {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("authorization", &self.authorization)
            .header("content-type", content_type);
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut response = self.agent.run(request.body(body).unwrap())?;
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string()?;
        Ok(Answer { status, body: serde_json::from_str(&text).unwrap_or_default() })
    }
}
