use super::*;

#[test]
fn buffer_returns_to_the_pool_after_its_last_reader() {
    let pool = Pool::default();
    let mut buffer = pool.take();
    buffer[..3].copy_from_slice(b"abc");
    let place = buffer.as_ptr();
    let shared = pool.share(buffer, 3);
    let other = shared.clone();
    drop(shared);
    assert_eq!(&other[..], b"abc");
    let another = pool.take();
    assert_ne!(another.as_ptr(), place);
    drop(other);
    let again = pool.take();
    assert_eq!(again.as_ptr(), place);
}
