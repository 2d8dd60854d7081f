-- A queue of jobs in tables, for workers that are woken by notifications (worker.py).

CREATE TABLE queues (name text PRIMARY KEY);

CREATE TABLE jobs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue text NOT NULL,
  payload text NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  -- Nobody takes it before: a job for later, or one that a worker has claimed.
  visible_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX jobs_in_order ON jobs (queue, id);

-- What the example's jobs do: a line each.
CREATE TABLE done (id bigint, queue text, payload text, worker integer, attempt integer, at timestamptz DEFAULT clock_timestamp());

-- One wake for each queue of a statement, without payload: whoever hears it looks into the table.
CREATE FUNCTION jobs_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO queues SELECT DISTINCT queue FROM added ON CONFLICT DO NOTHING;
  PERFORM pg_notify('jobs.' || queue, '') FROM (SELECT DISTINCT queue FROM added) a;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_added AFTER INSERT ON jobs REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION jobs_added();

-- For workers whose list names queues by wildcard. A row at a time: an ON CONFLICT that adds nothing notifies nobody.
CREATE FUNCTION queues_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NOTIFY "jobs_queues";
  RETURN NULL;
END $$;
CREATE TRIGGER queues_changed AFTER INSERT OR DELETE ON queues FOR EACH ROW EXECUTE FUNCTION queues_changed();

-- Claims at most `most` jobs for `hold`. Strict priority: where fewer are taken than wait, those of a queue that `wanted`
-- lists earlier are taken first, and of a queue the oldest first. What others are just claiming is passed over.
--
-- The order of the queues is that of a loop, a statement for each, so that no plan can change it; within a queue ORDER BY
-- says which rows LIMIT leaves, whatever path they are read by. An UPDATE returns its rows in no order: so they are
-- returned as they were locked.
CREATE FUNCTION claim_jobs(wanted text[], most integer, hold interval) RETURNS SETOF jobs LANGUAGE plpgsql AS $$
DECLARE
  name text;
  job jobs;
  taken integer := 0;
BEGIN
  FOREACH name IN ARRAY wanted LOOP
    EXIT WHEN taken >= most;
    FOR job IN
      SELECT * FROM jobs WHERE queue = name AND visible_at <= now() ORDER BY id LIMIT most - taken FOR UPDATE SKIP LOCKED
    LOOP
      UPDATE jobs SET attempts = attempts + 1, visible_at = now() + hold WHERE id = job.id RETURNING * INTO job;
      taken := taken + 1;
      RETURN NEXT job;
    END LOOP;
  END LOOP;
END $$;
