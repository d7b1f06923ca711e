//! Certificates for servers on localhost.

/// A certificate for localhost, its key, and its certificate authority, all in PEM.
pub fn certificate() -> anyhow::Result<(String, String, String)> {
    let key = rcgen::KeyPair::generate()?;
    let mut parameters = rcgen::CertificateParams::new(Vec::<String>::new())?;
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&key)?;
    let issuer = rcgen::Issuer::new(parameters, key);
    let own_key = rcgen::KeyPair::generate()?;
    let own = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])?
        .signed_by(&own_key, &issuer)?;
    Ok((own.pem(), own_key.serialize_pem(), authority.pem()))
}
