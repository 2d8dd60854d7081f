-- The durable messages of examples/sse-*: rows, and a notification without payload that says "read again".

CREATE TABLE streams (
  name text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 49),  -- so that pgmq.q_<name>.INSERT is a channel
  newest bigint NOT NULL
);

CREATE TABLE messages (
  stream text NOT NULL,
  id bigint NOT NULL,
  payload text NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (stream, id)
);

-- Numbers of a stream become visible in their order: whoever adds a message has the stream's row locked until the commit.
-- With a sequence, 6 could be committed before 5, and who has read 6 would never see 5.
CREATE FUNCTION number_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO streams AS s VALUES (NEW.stream, 1) ON CONFLICT (name) DO UPDATE SET newest = s.newest + 1
    RETURNING newest INTO NEW.id;
  RETURN NEW;
END $$;
CREATE TRIGGER number_message BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION number_message();

-- Many rows of one transaction make one notification.
CREATE FUNCTION announce_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('pgmq.q_' || NEW.stream || '.INSERT', '');
  RETURN NULL;
END $$;
CREATE TRIGGER announce_message AFTER INSERT ON messages FOR EACH ROW EXECUTE FUNCTION announce_message();
