use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::{ClientAuthorities, Rejection};
use crate::certificates::{Authority, Pair};

fn authority() -> anyhow::Result<Authority> {
    let now = Timestamp::now();
    Ok(Authority::make("clients", now, now + days(10))?)
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

fn chain(pair: &Pair) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    Ok(CertificateDer::pem_slice_iter(&pair.certificate).collect::<Result<_, _>>()?)
}

#[test]
fn certificate_of_the_ca_with_an_accepted_name_is_accepted() -> anyhow::Result<()> {
    let (now, own) = (Timestamp::now(), authority()?);
    let pair = own.issue_client("front-proxy-client", now, now + days(1))?;
    let names = vec!["front-proxy-client".to_owned()];
    let authorities = ClientAuthorities::new(&own.certificate, names)?;
    for _ in 0..2 {
        assert_eq!(authorities.verify(&chain(&pair)?)?, "front-proxy-client");
    }
    Ok(())
}

#[test]
fn every_name_is_accepted_without_a_list() -> anyhow::Result<()> {
    let (now, own) = (Timestamp::now(), authority()?);
    let pair = own.issue_client("anything", now, now + days(1))?;
    let authorities = ClientAuthorities::new(&own.certificate, Vec::new())?;
    assert_eq!(authorities.verify(&chain(&pair)?)?, "anything");
    Ok(())
}

#[test]
fn other_certificates_are_rejected() -> anyhow::Result<()> {
    let (now, own, other) = (Timestamp::now(), authority()?, authority()?);
    let names = vec!["kube-apiserver".to_owned()];
    let authorities = ClientAuthorities::new(&own.certificate, names.clone())?;
    assert_eq!(authorities.verify(&[]), Err(Rejection::Missing));

    let kubelet = own.issue_client("system:node:a", now, now + days(1))?;
    let rejected = authorities.verify(&chain(&kubelet)?).unwrap_err();
    assert!(matches!(&rejected, Rejection::Name { name, .. } if name == "system:node:a"));
    assert!(
        rejected.to_string().contains("kube-apiserver"),
        "{rejected}"
    );

    let foreign = other.issue_client("kube-apiserver", now, now + days(1))?;
    let expired = own.issue_client("kube-apiserver", now - days(9), now - days(3))?;
    let server = own.issue("kube-apiserver", &names, now, now + days(1))?;
    for pair in [foreign, expired, server] {
        let rejected = authorities.verify(&chain(&pair)?).unwrap_err();
        assert!(matches!(rejected, Rejection::Unverified(_)), "{rejected}");
    }
    let garbage = CertificateDer::from(b"garbage".to_vec());
    let rejected = authorities.verify(&[garbage]).unwrap_err();
    assert!(matches!(rejected, Rejection::Unverified(_)), "{rejected}");
    Ok(())
}

#[test]
fn ca_file_without_a_certificate_is_rejected() {
    for pem in [
        "",
        "garbage",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let error = ClientAuthorities::new(pem, Vec::new()).unwrap_err();
        assert!(error.to_string().contains("client authority"), "{error}");
    }
}
