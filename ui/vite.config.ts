import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import react from '@vitejs/plugin-react';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

/** Puts a compressed copy beside each text file: control sends it to whoever takes it. */
function brotli(): Plugin {
  let folder = '';
  return {
    name: 'brotli',
    apply: 'build',
    configResolved(config) {
      folder = join(config.root, config.build.outDir);
    },
    closeBundle() {
      for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
        if (!/\.(js|css|svg)$/.test(name)) continue;
        const whole = readFileSync(join(folder, name));
        const small = brotliCompressSync(whole, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } });
        if (small.length < whole.length * 0.9) writeFileSync(join(folder, `${name}.br`), small);
      }
    },
  };
}

/** Where `npm run dev` finds control: a running `nogoo9 up`. */
const control = process.env['NOGOO9_URL'] ?? 'http://localhost:9009';

export default defineConfig({
  plugins: [react(), brotli()],
  build: {
    target: 'es2023',
    // Small files as data: URLs would need a wider content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // One file: most of it is react and react-aria, which every page needs; 180 kB on the wire.
    chunkSizeWarningLimit: 700,
  },
  server: { proxy: Object.fromEntries(['/api', '/auth'].map((path) => [path, control])) },
  test: { include: ['src/**/*.test.ts'], environment: 'node' },
});
