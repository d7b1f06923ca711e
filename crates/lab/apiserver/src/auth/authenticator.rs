//! From credentials to users: client certificates, static tokens, service account tokens.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use machinery::status::Status;
use serving::PeerCertificates;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::service_account::{SigningKey, TokenClaims};
use super::token_file::StaticTokens;
use super::{AUTHENTICATED, UserInfo};
use crate::store::Store;

/// Authenticators of the server.
pub struct Authenticator {
    issuer: String,
    key: SigningKey,
    tokens: StaticTokens,
}

impl Authenticator {
    /// An authenticator that issues tokens with `key` in the name of `issuer`.
    pub fn new(issuer: &str, key: SigningKey, tokens: StaticTokens) -> Self {
        Self {
            issuer: issuer.to_owned(),
            key,
            tokens,
        }
    }

    /// The issuer of tokens; also their default audience.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Authenticates a request. Missing credentials yield the anonymous user, invalid ones a 401.
    pub(crate) fn authenticate(
        &self,
        store: &Store,
        headers: &HeaderMap,
        peer: Option<&PeerCertificates>,
        now: Timestamp,
    ) -> Result<UserInfo, Status> {
        // Certificates before tokens, the order of upstream's union of authenticators
        // (`pkg/kubeapiserver/authenticator/config.go`): a client with both is the user of its
        // certificate.
        if let Some(user) = peer.and_then(by_certificate) {
            return Ok(user);
        }
        let Some(value) = headers.get(AUTHORIZATION) else {
            return Ok(UserInfo::anonymous());
        };
        let token = value
            .to_str()
            .ok()
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        match token {
            // Other schemes, or a scheme alone, are ignored.
            None | Some("") => Ok(UserInfo::anonymous()),
            Some(token) => match self.by_token(store, token, &[], now) {
                Ok((user, _)) => Ok(user),
                // A wrong token is 401 and never anonymous: a client whose token expired would
                // otherwise see 403 and not renew it.
                Err(_) => Err(Status::unauthorized()),
            },
        }
    }

    /// The user of a token, and the matching audiences of those requested (none requested: the
    /// server's own).
    pub(crate) fn by_token(
        &self,
        store: &Store,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<(UserInfo, Vec<String>), String> {
        // Before service account tokens: a static token is an exact match and needs no signature
        // check.
        if let Some(user) = self.tokens.find(token) {
            let audiences = if audiences.is_empty() {
                vec![self.issuer.clone()]
            } else {
                audiences.to_vec()
            };
            return Ok((user, audiences));
        }
        let claims = self.key.verify(token, &self.issuer, now)?;
        let own = [self.issuer.clone()];
        let wanted = if audiences.is_empty() {
            &own[..]
        } else {
            audiences
        };
        let shared: Vec<String> = wanted
            .iter()
            .filter(|wanted| claims.audiences.contains(wanted))
            .cloned()
            .collect();
        if shared.is_empty() {
            return Err(format!(
                "[invalid bearer token, token audiences {:?} is invalid for the target audiences {wanted:?}]",
                claims.audiences
            ));
        }
        // Last, since it reads the store; signature, expiry and audience are settled by then.
        claims.check_objects(store)?;
        Ok((claims.user(), shared))
    }

    /// Signs a token.
    pub(crate) fn issue(&self, claims: &TokenClaims) -> Result<String, String> {
        self.key.sign(claims, &self.issuer)
    }
}

/// The user of a certificate: common name and organisations.
fn by_certificate(peer: &PeerCertificates) -> Option<UserInfo> {
    let (_, certificate) = X509Certificate::from_der(peer.0.first()?).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let mut groups: Vec<String> = subject
        .iter_organization()
        .filter_map(|organisation| organisation.as_str().ok())
        .map(str::to_owned)
        .collect();
    groups.push(AUTHENTICATED.to_owned());
    Some(UserInfo {
        name,
        groups,
        ..UserInfo::default()
    })
}
