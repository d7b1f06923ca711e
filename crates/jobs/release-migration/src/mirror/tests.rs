use rstest::rstest;

use super::*;

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

fn files(image: &str) -> Files {
    let references = format!(
        "{{kind: ImageStream, apiVersion: image.openshift.io/v1, metadata: {{name: 4.18.0}}, spec: {{tags: [{{name: mco, from: {{kind: DockerImage, name: '{image}'}}, importPolicy: {{x: 1}}}}]}}}}"
    );
    let operator = format!(
        "versions: [{{name: operator-image, version: \"{image}\"}}]\nargs: [--operator-image={image}]\n"
    );
    let pairs = [
        (REFERENCES, references),
        ("0000_80_mco_co.yaml", operator),
        ("0000_80_mco_other.yaml", "a: b\n".to_owned()),
    ];
    let pairs = pairs.map(|(name, text)| (name.to_owned(), text));
    Files::from(pairs)
}

#[rstest]
#[case(
    Destination::repository("mirror.example:5000/ocp/release"),
    "mirror.example:5000/ocp/release"
)]
#[case(
    Destination::registry("mirror.example:5000"),
    "mirror.example:5000/openshift-release-dev/art"
)]
#[case(
    Destination::registry("mirror.example/a/b"),
    "mirror.example/a/b/openshift-release-dev/art"
)]
fn manifests_and_flags_move_together(
    #[case] to: Result<Destination, ReferenceError>,
    #[case] expected: &str,
) {
    let image = format!("quay.io/openshift-release-dev/art@{}", digest('b'));
    let mirrored = mirror(&files(&image), &to.unwrap()).unwrap();
    let new = format!("{expected}@{}", digest('b'));
    assert_eq!(
        mirrored.files["0000_80_mco_co.yaml"],
        format!(
            "versions: [{{name: operator-image, version: \"{new}\"}}]\nargs: [--operator-image={new}]\n"
        )
    );
    let stream = read_references(&mirrored.files[REFERENCES]).unwrap();
    assert_eq!(stream.image("mco"), Some(new.as_str()));
    assert!(stream.spec.tags[0].rest.contains_key("importPolicy"));
    assert_eq!(mirrored.changed, 1);
    let moved: Vec<_> = mirrored.moved.iter().collect();
    assert_eq!(moved, [(image.as_str(), new.as_str())]);
    // Mirroring to the current location changes nothing.
    let again = mirror(&mirrored.files, &Destination::repository(expected).unwrap()).unwrap();
    assert_eq!(again.files, mirrored.files);
    assert_eq!(again.changed, 0);
}

#[test]
fn unmovable_images_are_rejected() {
    let to = Destination::repository("m/r").unwrap();
    let refused = |image: &str| mirror(&files(image), &to).unwrap_err().to_string();
    assert_eq!(
        refused("quay.io/r:tag"),
        "image reference tag \"mco\" in payload does not point to an image digest - unable to rewrite payload"
    );
    let both = format!("quay.io/r:tag@{}", digest('b'));
    assert!(refused(&both).contains("does not point to an image digest"));
    assert!(refused("quay.io/R").starts_with("rewriting image \"mco\" of the release: "));
    assert_eq!(
        mirror(&Files::new(), &to).unwrap_err(),
        MirrorError::NoReferences
    );
    assert!(Destination::registry("").is_err());
    assert!(Destination::repository("UPPER/x y").is_err());
}
