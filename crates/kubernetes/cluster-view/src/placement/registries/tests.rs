use std::io::ErrorKind;
use std::net::TcpListener;

use placement::ImageConsumer;

use super::*;

/// Pods name their images, so without the check a user who may create pods could make the webhook send
/// requests to loopback.
#[tokio::test]
async fn loopback_registries_are_not_contacted() {
    let inner = TcpListener::bind("127.0.0.1:0").unwrap();
    inner.set_nonblocking(true).unwrap();
    let port = inner.local_addr().unwrap().port();
    let registries = Registries::default();
    for host in ["127.0.0.1", "localhost"] {
        let used = ImageUse {
            image: format!("{host}:{port}/x:1"),
            by: ImageConsumer::Container("app".to_owned()),
            always: true,
        };
        let keyring = Arc::new(Keyring::anonymous());
        let failure = registries.inspect(&used, &keyring).await.unwrap_err();
        // The failure is permanent: the pod does not wait for it.
        assert!(!failure.known.transient, "{failure:?}");
        let message = failure.known.message;
        assert!(
            message.contains("is a loopback address") && message.contains("--allow-address"),
            "{message}"
        );
    }
    let untouched = inner.accept().unwrap_err();
    assert_eq!(untouched.kind(), ErrorKind::WouldBlock);
}
