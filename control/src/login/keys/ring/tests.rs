use super::*;

const NOW: UnixSeconds = 1_000_000;
const DAY: UnixSeconds = 24 * 3600;
const ROTATION: Rotation = Rotation {
    every: Some(30 * DAY),
    life: DAY,
};

fn kids(ring: &Ring) -> Vec<String> {
    let published: Value = serde_json::from_str(&ring.jwks()).unwrap();
    let keys = published["keys"].as_array().unwrap();
    keys.iter()
        .map(|jwk| jwk["kid"].as_str().unwrap().to_owned())
        .collect()
}

fn turn(ring: &Ring, now: UnixSeconds) -> Option<Ring> {
    ring.turn(&ROTATION, now, SigningKey::generate).unwrap()
}

#[test]
fn a_rotation_from_beginning_to_end() {
    let ring = Ring::of(SigningKey::generate().unwrap(), Some(NOW));
    let first = ring.current.kid().to_owned();
    assert!(turn(&ring, NOW + 30 * DAY - 1).is_none());

    // Published, and not used for a quarter of an hour.
    let made = NOW + 30 * DAY;
    let ring = turn(&ring, made).unwrap();
    let second = ring.next.as_ref().unwrap().key.kid().to_owned();
    assert_eq!(kids(&ring), [first.clone(), second.clone()]);
    assert_eq!(ring.signing(made + LEAD - 1).kid(), first);
    assert!(turn(&ring, made + LEAD - 1).is_none(), "one successor");

    // From then on it signs, whether or not that has been written down.
    assert_eq!(ring.signing(made + LEAD).kid(), second);
    let ring = turn(&ring, made + LEAD).unwrap();
    assert_eq!(ring.signing(made + LEAD).kid(), second);
    assert_eq!(ring.since, Some(made + LEAD));
    assert_eq!(kids(&ring), [second.clone(), first]);

    // The first verifies as long as there can be a token of it.
    assert!(turn(&ring, made + LEAD + DAY - 1).is_none());
    let ring = turn(&ring, made + LEAD + DAY).unwrap();
    assert_eq!(kids(&ring), [second]);
}

#[test]
fn a_key_of_unknown_age_is_as_new() {
    let ring = Ring::of(SigningKey::generate().unwrap(), None);
    let ring = turn(&ring, NOW).unwrap();
    assert_eq!((ring.since, ring.next.is_none()), (Some(NOW), true));
    assert!(turn(&ring, NOW).is_none());
}

#[test]
fn one_who_was_away_for_long_catches_up() {
    let ring = Ring::of(SigningKey::generate().unwrap(), Some(NOW));
    let ring = turn(&ring, NOW + 31 * DAY).unwrap();
    let first = ring.current.kid().to_owned();
    // Nobody wrote anything for two months: the promised successor signs, the next one is announced,
    // and what the first signed meanwhile, if clocks were wrong, still verifies.
    let late = NOW + 91 * DAY;
    let ring = turn(&ring, late).unwrap();
    assert_eq!(ring.retired[0].until, late + DAY);
    assert_eq!(ring.retired[0].jwk["kid"], first);
    assert_eq!(ring.next.as_ref().unwrap().from, late + LEAD);
    assert_eq!(kids(&ring).len(), 3);
}

#[test]
fn without_rotation_the_key_stays() {
    let ring = Ring::of(SigningKey::generate().unwrap(), Some(NOW));
    let never = Rotation {
        every: None,
        ..ROTATION
    };
    let turned = ring.turn(&never, NOW + 1000 * DAY, SigningKey::generate);
    assert!(turned.unwrap().is_none());
}
