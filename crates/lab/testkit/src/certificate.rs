//! Certificates for servers of tests.

/// A certificate for localhost, its key, and its certificate authority, all in PEM.
pub fn certificate() -> anyhow::Result<(String, String, String)> {
    certificate_for(&["127.0.0.1"])
}

/// A certificate for these names, its key, and its certificate authority, all in PEM.
pub fn certificate_for(names: &[&str]) -> anyhow::Result<(String, String, String)> {
    let key = rcgen::KeyPair::generate()?;
    let mut parameters = rcgen::CertificateParams::new(Vec::<String>::new())?;
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&key)?;
    let issuer = rcgen::Issuer::new(parameters, key);
    let own_key = rcgen::KeyPair::generate()?;
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let own = rcgen::CertificateParams::new(names)?.signed_by(&own_key, &issuer)?;
    Ok((own.pem(), own_key.serialize_pem(), authority.pem()))
}
