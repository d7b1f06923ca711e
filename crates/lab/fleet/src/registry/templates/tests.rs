//! Templates of boot images.

use super::*;
use platform::Source;

#[test]
fn every_image_has_a_template_that_points_to_it() {
    let address: SocketAddr = "127.0.0.1:5000".parse().unwrap();
    let all = templates(address);
    assert_eq!(all.len(), IMAGES.len());
    for image in &IMAGES {
        let name = format!("{}-image-cron", image.name);
        let template = all
            .iter()
            .find(|it| it["metadata"]["name"] == name.as_str());
        let template = template.unwrap();
        assert_eq!(template["spec"]["managedDataSource"], image.name);
        let url = &template["spec"]["template"]["spec"]["source"]["registry"]["url"];
        let source: Source = url.as_str().unwrap().parse().unwrap();
        let reference = source.reference().unwrap();
        assert_eq!(reference.host().as_str(), "127.0.0.1:5000");
        assert_eq!(reference.repository().as_str(), image.repository);
        assert_eq!(reference.tag().unwrap().as_str(), image.tag);
    }
    let architectures = |name: &str| {
        let template = all.iter().find(|it| it["metadata"]["name"] == name);
        template.unwrap()["metadata"]["annotations"]["ssp.kubevirt.io/dict.architectures"].clone()
    };
    assert_eq!(architectures("fedora-image-cron"), "arm64,s390x,amd64");
    assert_eq!(architectures("opensuse-leap-image-cron"), "amd64,arm64");
    assert_eq!(architectures("debian-image-cron"), Value::Null);
}

#[test]
fn every_architecture_has_a_virtual_machine_template() {
    let all = machine_templates();
    let names: Vec<&str> = all
        .iter()
        .filter_map(|it| it["metadata"]["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "centos-stream9-server-small",
            "centos-stream9-server-small-arm64",
            "centos-stream9-server-small-s390x",
            "fedora-server-small",
            "fedora-server-small-arm64",
            "fedora-server-small-s390x",
            "opensuse-leap-server-small",
            "opensuse-leap-server-small-arm64",
        ]
    );
    for template in &all {
        let labels = &template["metadata"]["labels"];
        let machine = &template["objects"][0]["spec"];
        let architecture = &machine["template"]["spec"]["architecture"];
        assert_eq!(labels["template.kubevirt.io/architecture"], *architecture);
        let volume = &machine["dataVolumeTemplates"][0]["spec"];
        assert_eq!(volume["sourceRef"]["name"], "${DATA_SOURCE_NAME}");
        let parameters = template["parameters"].as_array().unwrap();
        let source = parameters
            .iter()
            .find(|it| it["name"] == "DATA_SOURCE_NAME");
        let source = source.unwrap()["value"].as_str().unwrap();
        assert!(super::super::catalog::image(source).is_some());
    }
}
