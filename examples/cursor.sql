-- The table that cursor.c and cursor.cpp follow. Numbers are given under a lock that is held until the commit, so that
-- they become visible in their order: a reader that has seen number 7 will never have to go back for number 6. (With
-- a plain serial it would: numbers are given before commits, and commits come in any order.)
CREATE TABLE orders (id bigint PRIMARY KEY, what text NOT NULL);
CREATE SEQUENCE orders_numbers OWNED BY orders.id;

CREATE FUNCTION orders_number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock('orders'::regclass::oid::bigint);
  NEW.id := nextval('orders_numbers');
  RETURN NEW;
END $$;
CREATE TRIGGER orders_number BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION orders_number();

-- Without a payload: "something changed". Equal notifications of one transaction are one.
CREATE FUNCTION orders_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NOTIFY orders;
  RETURN NULL;
END $$;
CREATE TRIGGER orders_changed AFTER INSERT ON orders FOR EACH STATEMENT EXECUTE FUNCTION orders_changed();
