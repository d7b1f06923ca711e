use rstest::rstest;

use super::*;

fn image(place: &str, letter: char) -> String {
    format!("{place}@sha256:{}", letter.to_string().repeat(64))
}

fn found(from: Option<&str>, to: &str, running: &[&str]) -> Diagnosis {
    let undone = MissingVersion {
        name: "operator-image".to_owned(),
        from: from.map(str::to_owned),
        to: to.to_owned(),
    };
    let running: Vec<PodImage> = running
        .iter()
        .enumerate()
        .map(|(number, image)| PodImage {
            namespace: "ns".to_owned(),
            pod: format!("pod-{number}"),
            container: "c".to_owned(),
            image: (*image).to_owned(),
            is_ready: true,
        })
        .collect();
    diagnose(&undone, &running)
}

#[rstest]
#[case::on_its_way(
    Some(image("q/r", 'a')),
    image("q/r", 'b'),
    Mismatch::OtherImage,
    "has not finished"
)]
#[case::mirror(
    Some(image("mirror.example/r", 'b')),
    image("quay.io/r", 'b'),
    Mismatch::OtherPlace,
    "(mirror.example/r instead of quay.io/r)"
)]
#[case::repository(
    Some(image("quay.io/s", 'b')),
    image("quay.io/r", 'b'),
    Mismatch::OtherPlace,
    "never resolves"
)]
#[case::tag(Some("quay.io/r:4.18.0".to_owned()), image("quay.io/r", 'b'), Mismatch::TagForm, "by tag")]
#[case::wanted_tag(Some(image("quay.io/r", 'b')), "quay.io/r:4.18.0".to_owned(), Mismatch::WantedTagForm, "by digest")]
#[case::not_built(
    Some("placeholder.url.oc.will.replace.this.org/placeholdernamespace:was-not-built-properly".to_owned()),
    image("quay.io/r", 'b'), Mismatch::NotBuilt, "not built as part of a release"
)]
#[case::nonsense(Some("No Image".to_owned()), image("quay.io/r", 'b'), Mismatch::NoImage, "not a pull specification")]
#[case::silent(
    None,
    image("quay.io/r", 'b'),
    Mismatch::NotReported,
    "does not run yet"
)]
fn images(
    #[case] from: Option<String>,
    #[case] to: String,
    #[case] expected: Mismatch,
    #[case] part: &str,
) {
    let found = found(from.as_deref(), &to, &[]);
    assert_eq!(found.mismatch, expected);
    assert!(found.message.contains(part), "{}", found.message);
    assert_eq!(found.passes, expected == Mismatch::OtherImage);
}

#[test]
fn running_pods_refine_the_diagnosis() {
    let (old, new) = (image("quay.io/r", 'a'), image("quay.io/r", 'b'));
    let stale = found(Some(&old), &new, &[&new, &old]);
    assert_eq!(stale.mismatch, Mismatch::StalePod);
    assert!(stale.message.contains("ns/pod-1 still runs"));
    let other = found(Some(&old), &new, &[&old]);
    assert_eq!(other.mismatch, Mismatch::OtherImage);
    let silent = found(None, &new, &[&new]);
    assert_eq!(silent.mismatch, Mismatch::NotReported);
    assert!(silent.message.contains("does not report it"));
}

#[test]
fn version_mismatch_is_diagnosed() {
    let version = |from: Option<&str>| {
        let undone = MissingVersion {
            name: "operator".to_owned(),
            from: from.map(str::to_owned),
            to: "4.18.0".to_owned(),
        };
        diagnose(&undone, &[])
    };
    assert_eq!(version(Some("4.17.0")).mismatch, Mismatch::OtherVersion);
    assert_eq!(version(None).mismatch, Mismatch::NotReported);
    assert_eq!(
        version(Some("4.17.0")).to_string(),
        "operator from 4.17.0 to 4.18.0: the operator has not finished its update"
    );
}
