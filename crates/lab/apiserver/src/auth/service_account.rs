//! Service account tokens: JWTs signed with the server's own key (ES256).

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use machinery::meta;
use serde_json::{Value, json};

use super::{AUTHENTICATED, UserInfo};
use crate::store::Store;

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenClaims {
    /// Namespace of the account.
    pub namespace: String,
    /// Name of the account.
    pub name: String,
    /// Uid of the account.
    pub uid: String,
    /// Audiences of the token.
    pub audiences: Vec<String>,
    /// Time of issue.
    pub issued: Timestamp,
    /// Expiry.
    pub expires: Timestamp,
    /// Kind, name and UID of the object the token is bound to.
    pub bound: Option<(String, String, String)>,
    /// Name and UID of the node of that object; the UID is empty for an unknown node.
    pub node: Option<(String, String)>,
    /// Unique ID of the token.
    pub id: String,
}

impl TokenClaims {
    /// The user the token authenticates.
    pub(crate) fn user(&self) -> UserInfo {
        let mut user = UserInfo {
            name: format!("system:serviceaccount:{}:{}", self.namespace, self.name),
            uid: self.uid.clone(),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{}", self.namespace),
                AUTHENTICATED.to_owned(),
            ],
            ..UserInfo::default()
        };
        let mut extra = |key: &str, value: &str| {
            let key = format!("authentication.kubernetes.io/{key}");
            user.extra.insert(key, vec![value.to_owned()]);
        };
        if let Some((kind, name, uid)) = &self.bound
            && kind == "Pod"
        {
            extra("pod-name", name);
            extra("pod-uid", uid);
        }
        extra("credential-id", &format!("JTI={}", self.id));
        if let Some((name, uid)) = &self.node {
            extra("node-name", name);
            if !uid.is_empty() {
                extra("node-uid", uid);
            }
        }
        user
    }

    /// A token is invalid once its account or its bound object is gone.
    pub(crate) fn check_objects(&self, store: &Store) -> Result<(), String> {
        let alive = |key: String, uid: &str| {
            store
                .get(&key)
                .and_then(|entry| entry.object().ok())
                // By UID, because an account that is deleted and created again must not revive the
                // tokens of the first one.
                .is_some_and(|object| meta::uid(&object) == uid)
        };
        let (namespace, name) = (&self.namespace, &self.name);
        if !alive(
            format!("/registry/serviceaccounts/{namespace}/{name}"),
            &self.uid,
        ) {
            return Err("service account token has been invalidated".to_owned());
        }
        let Some((kind, name, uid)) = &self.bound else {
            return Ok(());
        };
        let key = match kind.as_str() {
            "Pod" => format!("/registry/pods/{namespace}/{name}"),
            "Secret" => format!("/registry/secrets/{namespace}/{name}"),
            _ => format!("/registry/minions/{name}"),
        };
        if alive(key, uid) {
            Ok(())
        } else {
            Err("service account token has been invalidated".to_owned())
        }
    }
}

/// The key that signs tokens.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
}

impl SigningKey {
    /// A new key, in PKCS#8, for the caller to store.
    pub fn generate() -> Result<Vec<u8>, String> {
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map(|document| document.as_ref().to_vec())
            .map_err(|error| format!("generating a token key: {error}"))
    }

    /// Reads a key in PKCS#8.
    pub fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, String> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8)
            .map_err(|error| format!("reading the token key: {error}"))?;
        let digest =
            aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, pair.public_key().as_ref());
        let id = URL_SAFE_NO_PAD.encode(digest.as_ref());
        Ok(Self { pair, id })
    }

    /// Signs claims.
    pub(crate) fn sign(&self, claims: &TokenClaims, issuer: &str) -> Result<String, String> {
        let header = json!({"alg": "ES256", "kid": self.id});
        let mut private = json!({
            "namespace": claims.namespace,
            "serviceaccount": {"name": claims.name, "uid": claims.uid},
        });
        if let Some((kind, name, uid)) = &claims.bound {
            private[kind.to_lowercase()] = json!({"name": name, "uid": uid});
        }
        if let Some((name, uid)) = &claims.node {
            private["node"] = json!({"name": name});
            if !uid.is_empty() {
                private["node"]["uid"] = uid.as_str().into();
            }
        }
        let body = json!({
            "aud": claims.audiences,
            "exp": claims.expires.as_second(),
            "iat": claims.issued.as_second(),
            "nbf": claims.issued.as_second(),
            "iss": issuer,
            "jti": claims.id,
            "kubernetes.io": private,
            "sub": format!("system:serviceaccount:{}:{}", claims.namespace, claims.name),
        });
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&body));
        let signature = self
            .pair
            .sign(&SystemRandom::new(), signed.as_bytes())
            .map_err(|error| format!("signing a token: {error}"))?;
        Ok(format!(
            "{signed}.{}",
            URL_SAFE_NO_PAD.encode(signature.as_ref())
        ))
    }

    /// Verifies a token of this server; the error says why it is invalid.
    pub(crate) fn verify(
        &self,
        token: &str,
        issuer: &str,
        now: Timestamp,
    ) -> Result<TokenClaims, String> {
        // The `alg` of the header is not read: there is one key with one algorithm, so that a token
        // cannot choose a weaker one.
        const INVALID: &str = "invalid bearer token";
        let (signed, signature) = token.rsplit_once('.').ok_or(INVALID)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| INVALID)?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref())
            .verify(signed.as_bytes(), &signature)
            .map_err(|_| INVALID)?;
        let body = signed.split_once('.').ok_or(INVALID)?.1;
        let body = URL_SAFE_NO_PAD.decode(body).map_err(|_| INVALID)?;
        let body: Value = serde_json::from_slice(&body).map_err(|_| INVALID)?;
        if body["iss"] != issuer {
            return Err(INVALID.to_owned());
        }
        let time = |field: &str| {
            body[field]
                .as_i64()
                .and_then(|second| Timestamp::from_second(second).ok())
                .ok_or(INVALID)
        };
        let (issued, expires) = (time("iat")?, time("exp")?);
        if now >= expires {
            return Err("[invalid bearer token, service account token has expired]".to_owned());
        }
        let private = &body["kubernetes.io"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        // The pod before the node: a token of a pod has both claims, and is bound to the pod.
        let bound = [("pod", "Pod"), ("secret", "Secret"), ("node", "Node")]
            .into_iter()
            .find_map(|(field, kind)| {
                let object = private.get(field)?;
                Some((kind.to_owned(), text(&object["name"]), text(&object["uid"])))
            });
        Ok(TokenClaims {
            namespace: text(&private["namespace"]),
            name: text(&private["serviceaccount"]["name"]),
            uid: text(&private["serviceaccount"]["uid"]),
            audiences: body["aud"]
                .as_array()
                .map(|list| list.iter().map(text).collect())
                .unwrap_or_default(),
            issued,
            expires,
            bound,
            node: private
                .get("node")
                .map(|node| (text(&node["name"]), text(&node["uid"]))),
            id: text(&body["jti"]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> TokenClaims {
        TokenClaims {
            namespace: "default".into(),
            name: "robot".into(),
            uid: "u1".into(),
            audiences: vec!["a".into()],
            issued: Timestamp::from_second(1000).unwrap(),
            expires: Timestamp::from_second(2000).unwrap(),
            bound: Some(("Pod".into(), "p".into(), "u2".into())),
            node: Some(("n".into(), "u3".into())),
            id: "one".into(),
        }
    }

    #[test]
    fn token_is_valid_until_it_expires() {
        let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        let token = key.sign(&claims(), "https://issuer").unwrap();
        let at = |second| {
            key.verify(
                &token,
                "https://issuer",
                Timestamp::from_second(second).unwrap(),
            )
        };
        assert_eq!(at(1500).unwrap(), claims());
        assert!(at(2000).is_err());
        assert!(
            key.verify(
                &token,
                "https://other",
                Timestamp::from_second(1500).unwrap()
            )
            .is_err()
        );
    }

    #[test]
    fn token_user_has_account_pod_and_node() {
        let user = claims().user();
        let extra: Vec<(&str, &str)> = user
            .extra
            .iter()
            .map(|(key, values)| (key.split_once('/').unwrap().1, values[0].as_str()))
            .collect();
        assert_eq!(
            extra,
            [
                ("credential-id", "JTI=one"),
                ("node-name", "n"),
                ("node-uid", "u3"),
                ("pod-name", "p"),
                ("pod-uid", "u2"),
            ]
        );
    }

    #[test]
    fn foreign_and_modified_tokens_are_rejected() {
        let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        let other = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        let token = other.sign(&claims(), "i").unwrap();
        let now = Timestamp::from_second(1500).unwrap();
        for bad in [
            token.as_str(),
            "",
            "a.b",
            "a.b.c",
            "...",
            &format!("{token}x"),
        ] {
            assert!(key.verify(bad, "i", now).is_err(), "{bad}");
        }
    }
}
