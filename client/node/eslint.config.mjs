// ESLint's own rules alone, so that nothing but eslint has to be installed.
const globals = Object.fromEntries(
  ['Buffer', 'URL', '__dirname', 'clearInterval', 'clearTimeout', 'console', 'module', 'performance', 'process']
    .concat(['queueMicrotask', 'require', 'setImmediate', 'setInterval', 'setTimeout'])
    .map((name) => [name, 'readonly']),
);

export default [
  {
    files: ['**/*.js'],
    languageOptions: { ecmaVersion: 2022, sourceType: 'commonjs', globals },
    rules: {
      'array-callback-return': 'error',
      'consistent-return': 'error',
      eqeqeq: 'error',
      'max-len': ['error', { code: 125 }],
      'no-constant-binary-expression': 'error',
      'no-dupe-keys': 'error',
      'no-promise-executor-return': 'off',
      'no-shadow': 'error',
      'no-undef': 'error',
      'no-unreachable': 'error',
      'no-unused-private-class-members': 'error',
      'no-unused-vars': 'error',
      'no-use-before-define': ['error', { functions: false, classes: false }],
      'no-var': 'error',
      'prefer-const': 'error',
      'require-atomic-updates': 'error',
      strict: ['error', 'global'],
    },
  },
];
