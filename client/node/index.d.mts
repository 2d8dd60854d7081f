import * as pgwake from './index.js';
export * from './index.js';
export default pgwake;
