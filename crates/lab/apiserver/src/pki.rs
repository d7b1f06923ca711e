//! The server's own certificate authority.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use crate::auth::SigningKey;
use crate::private;

/// Errors of keys and certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// Creating or parsing a certificate failed.
    #[error("making or reading a certificate")]
    Certificate(#[from] rcgen::Error),
    /// A key file cannot be read or written.
    #[error("using the key file {path}")]
    File {
        /// The file.
        path: String,
        /// The I/O error.
        #[source]
        source: std::io::Error,
    },
    /// A token key cannot be used.
    #[error("{0}")]
    TokenKey(String),
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Certificate.
    pub certificate: String,
    /// Private key.
    pub key: String,
}

/// The authority that signs the certificates of the server and its clients.
pub struct Authority {
    certificate: String,
    key: String,
    token_key: Vec<u8>,
}

impl Authority {
    /// A new authority for the lifetime of the process.
    pub fn generate() -> Result<Self, PkiError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = subject("medley-ca", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let token_key = SigningKey::generate().map_err(PkiError::TokenKey)?;
        Ok(Self {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            token_key,
        })
    }

    /// The authority stored in a folder, created on first use. Kubeconfigs and tokens stay valid
    /// across restarts.
    pub fn open(folder: &Path) -> Result<Self, PkiError> {
        let (certificate, key, token) = (
            folder.join("ca.crt"),
            folder.join("ca.key"),
            folder.join("sa.key"),
        );
        if certificate.exists() && key.exists() && token.exists() {
            let text = |path: &Path| {
                private::narrow(path)
                    .and_then(|()| std::fs::read_to_string(path))
                    .map_err(|source| PkiError::file(path, source))
            };
            private::narrow(&token).map_err(|source| PkiError::file(&token, source))?;
            return Ok(Self {
                certificate: text(&certificate)?,
                key: text(&key)?,
                token_key: std::fs::read(&token)
                    .map_err(|source| PkiError::file(&token, source))?,
            });
        }
        let new = Self::generate()?;
        private::make_folder(folder).map_err(|source| PkiError::file(folder, source))?;
        // The certificate last: it is what clients trust. After a crash in between one of the three
        // is missing, and the next start creates all of them anew.
        let files: [(&Path, &[u8]); 3] = [
            (&token, &new.token_key),
            (&key, new.key.as_bytes()),
            (&certificate, new.certificate.as_bytes()),
        ];
        for (path, content) in files {
            private::write(path, content).map_err(|source| PkiError::file(path, source))?;
        }
        Ok(new)
    }

    /// The certificate clients trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The key that signs service account tokens.
    pub fn token_key(&self) -> Result<SigningKey, PkiError> {
        SigningKey::from_pkcs8(&self.token_key).map_err(PkiError::TokenKey)
    }

    /// A certificate for a server reachable under the given names and addresses.
    pub fn server(&self, names: &[String]) -> Result<Identity, PkiError> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = subject("kube-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A certificate for a user: the common name is the user, the organisation is a group.
    pub fn client(&self, user: &str, group: &str) -> Result<Identity, PkiError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = subject(user, Some(group));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Identity, PkiError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

impl PkiError {
    pub(crate) fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File {
            path: path.display().to_string(),
            source,
        }
    }
}

fn subject(common_name: &str, organisation: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organisation) = organisation {
        name.push(DnType::OrganizationName, organisation);
    }
    name.push(DnType::CommonName, common_name);
    name
}
