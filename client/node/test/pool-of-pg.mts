/** As much of pg's as test/types.mts needs. */
export interface Pool {
  query(text: string): Promise<unknown>;
}
