import styles from './Brand.module.css';

/** The name, which leads home. */
export function Brand() {
  return (
    <a href="/" className={styles.brand}>
      <img src="/favicon.svg" alt="" width="26" height="26" />
      nogoo9
    </a>
  );
}
