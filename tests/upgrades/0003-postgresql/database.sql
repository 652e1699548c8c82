SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE FUNCTION public.audit_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the audit is append-only'; END $$;
CREATE FUNCTION public.drawn_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the drawn is append-only'; END $$;
CREATE FUNCTION public.ledger_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$;
CREATE FUNCTION public.ledger_head() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN UPDATE populations SET head = NEW.hash WHERE id = NEW.population; RETURN NULL; END $$;
CREATE FUNCTION public.releases_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the releases is append-only'; END $$;
CREATE FUNCTION public.signing_keys_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the signing_keys is append-only'; END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.audit (
    sequence integer NOT NULL,
    at character varying(32) NOT NULL,
    actor character varying(40) NOT NULL,
    action character varying(40) NOT NULL,
    object character varying(40) NOT NULL
);
CREATE SEQUENCE public.audit_sequence_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.audit_sequence_seq OWNED BY public.audit.sequence;
CREATE TABLE public.datasets (
    id character varying(40) NOT NULL,
    population character varying(40) NOT NULL,
    owner character varying(40) NOT NULL,
    name character varying(200) NOT NULL,
    state character varying(16) NOT NULL,
    schema text NOT NULL,
    units bigint,
    folder character varying(80),
    created_at character varying(32) NOT NULL,
    CONSTRAINT ck_datasets_state CHECK (((state)::text = ANY ((ARRAY['empty'::character varying, 'ready'::character varying, 'retired'::character varying])::text[])))
);
CREATE TABLE public.drawn (
    training character varying(40) NOT NULL,
    number bigint NOT NULL,
    piece bigint NOT NULL,
    content bytea NOT NULL
);
CREATE TABLE public.draws (
    training character varying(40) NOT NULL,
    number bigint NOT NULL,
    event text NOT NULL,
    recorded boolean NOT NULL
);
CREATE TABLE public.grants (
    id character varying(40) NOT NULL,
    population character varying(40) NOT NULL,
    dataset character varying(40) NOT NULL,
    holder character varying(40) NOT NULL,
    cap bigint NOT NULL,
    used bigint NOT NULL,
    revoked boolean NOT NULL,
    created_at character varying(32) NOT NULL,
    CONSTRAINT ck_grants_within_cap CHECK (((cap > 0) AND (used >= 0) AND (used <= cap)))
);
CREATE TABLE public.keys (
    id character varying(40) NOT NULL,
    name character varying(200) NOT NULL,
    role character varying(16) NOT NULL,
    token_hash character varying(64) NOT NULL,
    created_at character varying(32) NOT NULL,
    revoked_at character varying(32),
    issuer character varying(255),
    subject character varying(255),
    asserted_at character varying(32),
    CONSTRAINT ck_keys_role CHECK (((role)::text = ANY ((ARRAY['admin'::character varying, 'custodian'::character varying, 'analyst'::character varying, 'auditor'::character varying])::text[])))
);
CREATE TABLE public.ledger (
    population character varying(40) NOT NULL,
    sequence bigint NOT NULL,
    at character varying(32) NOT NULL,
    kind character varying(16) NOT NULL,
    rho bigint NOT NULL,
    training character varying(40),
    actor character varying(40) NOT NULL,
    reason character varying(500),
    previous_hash character varying(64) NOT NULL,
    hash character varying(64) NOT NULL,
    CONSTRAINT ck_ledger_kind CHECK (((kind)::text = ANY ((ARRAY['open'::character varying, 'reserve'::character varying, 'charge'::character varying, 'give_back'::character varying, 'adjust'::character varying, 'draw'::character varying])::text[])))
);
CREATE TABLE public.populations (
    id character varying(40) NOT NULL,
    name character varying(200) NOT NULL,
    owner character varying(40) NOT NULL,
    total bigint NOT NULL,
    reserved bigint NOT NULL,
    charged bigint NOT NULL,
    sequence bigint NOT NULL,
    head character varying(64) NOT NULL,
    created_at character varying(32) NOT NULL,
    CONSTRAINT ck_populations_within_total CHECK (((reserved >= 0) AND (charged >= 0) AND ((reserved + charged) <= total)))
);
CREATE TABLE public.releases (
    id character varying(40) NOT NULL,
    training character varying(40) NOT NULL,
    dataset character varying(40) NOT NULL,
    actor character varying(40) NOT NULL,
    algorithm character varying(40) NOT NULL,
    derived boolean NOT NULL,
    document text NOT NULL,
    certificate text NOT NULL,
    created_at character varying(32) NOT NULL
);
CREATE TABLE public.sessions (
    hash character varying(64) NOT NULL,
    token_hash character varying(64) NOT NULL,
    created_at character varying(32) NOT NULL,
    used_at character varying(32) NOT NULL,
    expires_at character varying(32)
);
CREATE TABLE public.signing_keys (
    kid character varying(64) NOT NULL,
    jwk text NOT NULL,
    created_at character varying(32) NOT NULL
);
CREATE TABLE public.trainings (
    id character varying(40) NOT NULL,
    dataset character varying(40) NOT NULL,
    actor character varying(40) NOT NULL,
    idempotency_key character varying(200) NOT NULL,
    grant_id character varying(40),
    algorithm character varying(40) NOT NULL,
    request text NOT NULL,
    rho bigint NOT NULL,
    state character varying(16) NOT NULL,
    code character varying(40),
    stages bigint NOT NULL,
    done bigint NOT NULL,
    attempts bigint NOT NULL,
    started_at character varying(32),
    fence bigint NOT NULL,
    lease_until character varying(32),
    created_at character varying(32) NOT NULL,
    CONSTRAINT ck_trainings_state CHECK (((state)::text = ANY ((ARRAY['queued'::character varying, 'running'::character varying, 'released'::character varying, 'failed'::character varying, 'cancelled'::character varying])::text[])))
);
CREATE TABLE public.uploads (
    folder character varying(80) NOT NULL,
    dataset character varying(40) NOT NULL
);
ALTER TABLE ONLY public.audit ALTER COLUMN sequence SET DEFAULT nextval('public.audit_sequence_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0003');
INSERT INTO public.audit VALUES (1, '2026-11-17T12:58:20.674563+00:00', 'key_wBMwqlkUx1EvraMZnVijx8', 'key.create', 'key_wBMwqlkUx1EvraMZnVijx8');
INSERT INTO public.audit VALUES (2, '2026-11-17T12:58:20.739637+00:00', 'command line', 'signing-key.publish', 'Z9NHXgIX759t1O8orz65LLjGu1WBWh6Lb32b_SzI');
INSERT INTO public.audit VALUES (3, '2026-11-17T12:58:21.210237+00:00', 'key_wBMwqlkUx1EvraMZnVijx8', 'key.create', 'key_SPLUWCzGMq3OMhdiIuW6Ud');
INSERT INTO public.audit VALUES (4, '2026-11-17T12:58:21.262062+00:00', 'key_wBMwqlkUx1EvraMZnVijx8', 'key.create', 'key_bPwTgTO9ZirmJH7Jx1QXmJ');
INSERT INTO public.audit VALUES (5, '2026-11-17T12:58:21.306346+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'population.create', 'pop_MD2C7hA743XzcM5zFk0AyM');
INSERT INTO public.audit VALUES (6, '2026-11-17T12:58:21.306346+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'dataset.create', 'ds_TTNQQyfMxLUUUTxuzOKaxk');
INSERT INTO public.audit VALUES (7, '2026-11-17T12:58:21.550244+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'dataset.upload', 'ds_TTNQQyfMxLUUUTxuzOKaxk');
INSERT INTO public.audit VALUES (8, '2026-11-17T12:58:22.518131+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'population.create', 'pop_4U8eHJVj8x2rRM9IfVRoIW');
INSERT INTO public.audit VALUES (9, '2026-11-17T12:58:22.518131+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'dataset.create', 'ds_EQNPPZVe8nBBEpFELe9xuj');
INSERT INTO public.audit VALUES (10, '2026-11-17T12:58:22.557654+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'dataset.upload', 'ds_EQNPPZVe8nBBEpFELe9xuj');
INSERT INTO public.audit VALUES (11, '2026-11-17T12:58:22.652248+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'population.create', 'pop_kXMDArmKLu6dra6TrtleMN');
INSERT INTO public.audit VALUES (12, '2026-11-17T12:58:22.652248+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'dataset.create', 'ds_yviXTcGLtOVoxDWJfPjPDU');
INSERT INTO public.audit VALUES (13, '2026-11-17T12:58:22.697285+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'dataset.upload', 'ds_yviXTcGLtOVoxDWJfPjPDU');
INSERT INTO public.audit VALUES (14, '2026-11-17T12:58:22.826878+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'grant.create', 'gr_o3GofyKllx9zqS330sLjJY');
INSERT INTO public.audit VALUES (15, '2026-11-17T12:58:22.853823+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'grant.create', 'gr_vaN9c4ETO30VR7cFWdLrpN');
INSERT INTO public.audit VALUES (16, '2026-11-17T12:58:22.864152+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'grant.create', 'gr_Hauy97TubmMq9f1Blvm8uR');
INSERT INTO public.audit VALUES (17, '2026-11-17T12:58:22.875998+00:00', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'training.submit', 'tr_mziMkvK943F2HpJ7TAtirx');
INSERT INTO public.audit VALUES (18, '2026-11-17T12:58:26.645979+00:00', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'policy.derive', 'pol_7if2xlHlmddN47PxTL19m3');
INSERT INTO public.audit VALUES (19, '2026-11-17T12:58:26.824751+00:00', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'training.submit', 'tr_Y5RgxgSHrCDUT17Th8XipH');
INSERT INTO public.audit VALUES (20, '2026-11-17T12:58:29.230237+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'dataset.retire', 'ds_EQNPPZVe8nBBEpFELe9xuj');
INSERT INTO public.audit VALUES (21, '2026-11-17T12:58:29.251973+00:00', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'budget.change', 'pop_MD2C7hA743XzcM5zFk0AyM');
INSERT INTO public.audit VALUES (22, '2026-11-17T12:58:29.272979+00:00', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'training.submit', 'tr_XpaA54mdjbsjSMh1QGj71z');
INSERT INTO public.audit VALUES (23, '2026-11-17T12:58:34.151093+00:00', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'training.submit', 'tr_Ej9vEpLVKzf9vzdSYRJgjh');
INSERT INTO public.audit VALUES (24, '2026-11-17T12:58:34.176135+00:00', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'training.cancel', 'tr_Ej9vEpLVKzf9vzdSYRJgjh');
INSERT INTO public.audit VALUES (25, '2026-11-17T12:58:34.191781+00:00', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'training.submit', 'tr_iacOQ2PuikDCwOTefs7iIi');
INSERT INTO public.datasets VALUES ('ds_TTNQQyfMxLUUUTxuzOKaxk', 'pop_MD2C7hA743XzcM5zFk0AyM', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'icu', 'ready', '{"actions":{"count":2,"labels":["wait","treat"]},"horizon":3,"max_trajectories_per_unit":1,"reward":{"high":1,"low":0},"states":{"count":4,"kind":"discrete"}}', 40, 'up_eQ6E3tyw1Ixo4xeRiSLHWr', '2026-11-17T12:58:21.306346+00:00');
INSERT INTO public.datasets VALUES ('ds_yviXTcGLtOVoxDWJfPjPDU', 'pop_kXMDArmKLu6dra6TrtleMN', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'icu', 'ready', '{"actions":{"count":2,"labels":["wait","treat"]},"horizon":3,"max_trajectories_per_unit":10000,"reward":{"high":1,"low":0},"states":{"count":4,"kind":"discrete"}}', 30, 'up_aq720q4GZFcMeziQAv8Hp3', '2026-11-17T12:58:22.652248+00:00');
INSERT INTO public.datasets VALUES ('ds_EQNPPZVe8nBBEpFELe9xuj', 'pop_4U8eHJVj8x2rRM9IfVRoIW', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'icu', 'retired', '{"actions":{"count":2,"labels":["wait","treat"]},"horizon":3,"max_trajectories_per_unit":1,"reward":{"high":1,"low":0},"states":{"count":4,"kind":"discrete"}}', 20, 'up_6S037XNVgd8sh1wdxAwJqY', '2026-11-17T12:58:22.518131+00:00');
INSERT INTO public.drawn VALUES ('tr_mziMkvK943F2HpJ7TAtirx', 0, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a080000000000000006000000000000000b000000000000000400000000000000060000000000000008000000000000000700000000000000010000000000000010000000000000000a0000000000000005000000000000000000000000000000050000000000000006000000000000000600000000000000ffffffffffffffff06000000000000000e0000000000000007000000000000000b00000000000000ffffffffffffffff06000000000000000c000000000000000d00000000000000');
INSERT INTO public.drawn VALUES ('tr_mziMkvK943F2HpJ7TAtirx', 1, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a80c3020000000000defaffffffffffff95cc050000000000bc7cfdffffffffff448301000000000093a2ffffffffffff5694000000000000a086000000000000c882fcffffffffff096dfbffffffffff2022feffffffffff64b4010000000000f240fdffffffffffcf3d040000000000279800000000000015a5fcffffffffff7f83080000000000cd8c0000000000002a9f010000000000f93bfeffffffffffd5ed020000000000eae003000000000041420500000000007a97feffffffffff');
INSERT INTO public.drawn VALUES ('tr_mziMkvK943F2HpJ7TAtirx', 2, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028302c2035292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a');
INSERT INTO public.drawn VALUES ('tr_Y5RgxgSHrCDUT17Th8XipH', 0, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a030000000000000005000000000000000500000000000000ffffffffffffffff07000000000000000300000000000000ffffffffffffffff07000000000000000200000000000000fefffffffffffffffeffffffffffffff0600000000000000fdffffffffffffff0300000000000000feffffffffffffff02000000000000000200000000000000060000000000000003000000000000000a0000000000000007000000000000000400000000000000fdffffffffffffff0800000000000000');
INSERT INTO public.drawn VALUES ('tr_Y5RgxgSHrCDUT17Th8XipH', 1, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a21be00000000000039bdfeffffffffff94920100000000009db8f9ffffffffff59bb000000000000b0d3fcffffffffffb6ac010000000000e1fcffffffffffffd6c1ffffffffffff1dcbf7ffffffffff586afbffffffffff97550300000000005d9302000000000018fefeffffffffff228efdffffffffffe8ca0000000000009897ffffffffffffa107030000000000648dffffffffffffd21efeffffffffffd8c8fbfffffffffff6ed02000000000035f6fcffffffffffd28bf9ffffffffff');
INSERT INTO public.drawn VALUES ('tr_Y5RgxgSHrCDUT17Th8XipH', 2, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028302c2035292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a');
INSERT INTO public.draws VALUES ('tr_mziMkvK943F2HpJ7TAtirx', 0, '["gaussian","visits of each state and action, each step",[3,4,2],"everyone","6","18","1"]', true);
INSERT INTO public.draws VALUES ('tr_mziMkvK943F2HpJ7TAtirx', 1, '["gaussian","centred rewards of each state and action, each step",[3,4,2],"everyone","3","9","1/65536"]', true);
INSERT INTO public.draws VALUES ('tr_mziMkvK943F2HpJ7TAtirx', 2, '["gaussian","transitions from each state and action to each next state or the end, each step",[3,4,2,5],"everyone","6","18","1"]', true);
INSERT INTO public.draws VALUES ('tr_Y5RgxgSHrCDUT17Th8XipH', 0, '["gaussian","visits of each state and action, each step",[3,4,2],"everyone","6","18","1"]', true);
INSERT INTO public.draws VALUES ('tr_Y5RgxgSHrCDUT17Th8XipH', 1, '["gaussian","centred rewards of each state and action, each step",[3,4,2],"everyone","3","9","1/65536"]', true);
INSERT INTO public.draws VALUES ('tr_Y5RgxgSHrCDUT17Th8XipH', 2, '["gaussian","transitions from each state and action to each next state or the end, each step",[3,4,2,5],"everyone","6","18","1"]', true);
INSERT INTO public.grants VALUES ('gr_vaN9c4ETO30VR7cFWdLrpN', 'pop_4U8eHJVj8x2rRM9IfVRoIW', 'ds_EQNPPZVe8nBBEpFELe9xuj', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 8000000000, 500000000, false, '2026-11-17T12:58:22.853823+00:00');
INSERT INTO public.grants VALUES ('gr_Hauy97TubmMq9f1Blvm8uR', 'pop_kXMDArmKLu6dra6TrtleMN', 'ds_yviXTcGLtOVoxDWJfPjPDU', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 8000000000, 500000000, false, '2026-11-17T12:58:22.864152+00:00');
INSERT INTO public.grants VALUES ('gr_o3GofyKllx9zqS330sLjJY', 'pop_MD2C7hA743XzcM5zFk0AyM', 'ds_TTNQQyfMxLUUUTxuzOKaxk', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 8000000000, 1000000000, false, '2026-11-17T12:58:22.826878+00:00');
INSERT INTO public.keys VALUES ('key_wBMwqlkUx1EvraMZnVijx8', 'first administrator', 'admin', 'b9d342a6bae5a8c3917649edf8a89718cc2c5e3224395c16a5254a02ac0bc59a', '2026-11-17T12:58:20.674563+00:00', NULL, NULL, NULL, NULL);
INSERT INTO public.keys VALUES ('key_SPLUWCzGMq3OMhdiIuW6Ud', 'custodian', 'custodian', '26426dc7e1bad619c658e6d9bfa1325f4ed5f70500f0040522216bd639d96138', '2026-11-17T12:58:21.210237+00:00', NULL, NULL, NULL, NULL);
INSERT INTO public.keys VALUES ('key_bPwTgTO9ZirmJH7Jx1QXmJ', 'analyst', 'analyst', '6f8c6b9c5c8aca2d4c980fe363fcd700a6ca275d74cc0a7b82b97ecf2c87b0b6', '2026-11-17T12:58:21.262062+00:00', NULL, NULL, NULL, NULL);
INSERT INTO public.ledger VALUES ('pop_MD2C7hA743XzcM5zFk0AyM', 1, '2026-11-17T12:58:21.306346+00:00', 'open', 10000000000, NULL, 'key_SPLUWCzGMq3OMhdiIuW6Ud', NULL, '0000000000000000000000000000000000000000000000000000000000000000', '1a1d9280e51767d5fe63618444ebf08d1b8ad89cedad0bcd2a1aa1b9fa9eeaa3');
INSERT INTO public.ledger VALUES ('pop_4U8eHJVj8x2rRM9IfVRoIW', 1, '2026-11-17T12:58:22.518131+00:00', 'open', 1000000000, NULL, 'key_SPLUWCzGMq3OMhdiIuW6Ud', NULL, '0000000000000000000000000000000000000000000000000000000000000000', '7261a3309121fbd89a8d8783f40eb19cd360dc34e0165cbbad7f389368e396fa');
INSERT INTO public.ledger VALUES ('pop_kXMDArmKLu6dra6TrtleMN', 1, '2026-11-17T12:58:22.652248+00:00', 'open', 5000000000, NULL, 'key_SPLUWCzGMq3OMhdiIuW6Ud', NULL, '0000000000000000000000000000000000000000000000000000000000000000', 'f4100b022c5a13959316d46fd6443a7660e6738764eaa35bd3e17aeca0cb44ef');
INSERT INTO public.ledger VALUES ('pop_MD2C7hA743XzcM5zFk0AyM', 2, '2026-11-17T12:58:22.875998+00:00', 'reserve', 500000000, 'tr_mziMkvK943F2HpJ7TAtirx', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', NULL, '1a1d9280e51767d5fe63618444ebf08d1b8ad89cedad0bcd2a1aa1b9fa9eeaa3', '223da97ecb1d680a4e5daa54d43dbc7ba187f444527adbd11eb6ea10e8fe082f');
INSERT INTO public.ledger VALUES ('pop_MD2C7hA743XzcM5zFk0AyM', 3, '2026-11-17T12:58:24.488130+00:00', 'charge', 500000000, 'tr_mziMkvK943F2HpJ7TAtirx', 'worker', NULL, '223da97ecb1d680a4e5daa54d43dbc7ba187f444527adbd11eb6ea10e8fe082f', '614110a6d058902d5cb157fbe5383f349c94c5fd2820ef9043c710d4e2c8eaa0');
INSERT INTO public.ledger VALUES ('pop_4U8eHJVj8x2rRM9IfVRoIW', 2, '2026-11-17T12:58:26.824751+00:00', 'reserve', 500000000, 'tr_Y5RgxgSHrCDUT17Th8XipH', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', NULL, '7261a3309121fbd89a8d8783f40eb19cd360dc34e0165cbbad7f389368e396fa', '821b187655bb65307995f1c1662380d73da4a0cc6cbe442c34501ce906206852');
INSERT INTO public.ledger VALUES ('pop_4U8eHJVj8x2rRM9IfVRoIW', 3, '2026-11-17T12:58:27.138764+00:00', 'charge', 500000000, 'tr_Y5RgxgSHrCDUT17Th8XipH', 'worker', NULL, '821b187655bb65307995f1c1662380d73da4a0cc6cbe442c34501ce906206852', 'f6ceaef6cbc028679776d4627642d49f2c7be997e465f8e28996356bbebc69d0');
INSERT INTO public.ledger VALUES ('pop_MD2C7hA743XzcM5zFk0AyM', 4, '2026-11-17T12:58:29.251973+00:00', 'adjust', -1000000000, NULL, 'key_SPLUWCzGMq3OMhdiIuW6Ud', 'The ethics board allows nine.', '614110a6d058902d5cb157fbe5383f349c94c5fd2820ef9043c710d4e2c8eaa0', 'b9a614fa8067839cb59a38eaa870e863f5bc9a61a254c1e7e6bb61a22a453d8d');
INSERT INTO public.ledger VALUES ('pop_kXMDArmKLu6dra6TrtleMN', 2, '2026-11-17T12:58:29.272979+00:00', 'reserve', 500000000, 'tr_XpaA54mdjbsjSMh1QGj71z', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', NULL, 'f4100b022c5a13959316d46fd6443a7660e6738764eaa35bd3e17aeca0cb44ef', 'f94f802c2063143393a2e12647930ae2199877a90f3bc063200975b6745a58fc');
INSERT INTO public.ledger VALUES ('pop_kXMDArmKLu6dra6TrtleMN', 3, '2026-11-17T12:58:29.521616+00:00', 'charge', 500000000, 'tr_XpaA54mdjbsjSMh1QGj71z', 'worker', NULL, 'f94f802c2063143393a2e12647930ae2199877a90f3bc063200975b6745a58fc', '85b363bac30a411e7a035e2c7c46fbb78e7c066a769a3b60e83b64fbaff2eb38');
INSERT INTO public.ledger VALUES ('pop_MD2C7hA743XzcM5zFk0AyM', 5, '2026-11-17T12:58:34.151093+00:00', 'reserve', 500000000, 'tr_Ej9vEpLVKzf9vzdSYRJgjh', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', NULL, 'b9a614fa8067839cb59a38eaa870e863f5bc9a61a254c1e7e6bb61a22a453d8d', 'f1cde8f5725f4e3e8d344fbce437958efcf00b763bf9656dccdb2861594fbffd');
INSERT INTO public.ledger VALUES ('pop_MD2C7hA743XzcM5zFk0AyM', 6, '2026-11-17T12:58:34.176135+00:00', 'give_back', 500000000, 'tr_Ej9vEpLVKzf9vzdSYRJgjh', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', NULL, 'f1cde8f5725f4e3e8d344fbce437958efcf00b763bf9656dccdb2861594fbffd', 'd1ed4a9e559e81d67cfda3181d67adc313286104df2b213e4cfc809aa5af9cd0');
INSERT INTO public.ledger VALUES ('pop_MD2C7hA743XzcM5zFk0AyM', 7, '2026-11-17T12:58:34.191781+00:00', 'reserve', 500000000, 'tr_iacOQ2PuikDCwOTefs7iIi', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', NULL, 'd1ed4a9e559e81d67cfda3181d67adc313286104df2b213e4cfc809aa5af9cd0', '103b27cf26066f1145ce45d6eeece27b1044b9565636168995c4a09f96baf7aa');
INSERT INTO public.populations VALUES ('pop_4U8eHJVj8x2rRM9IfVRoIW', 'icu', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 1000000000, 0, 500000000, 3, 'f6ceaef6cbc028679776d4627642d49f2c7be997e465f8e28996356bbebc69d0', '2026-11-17T12:58:22.518131+00:00');
INSERT INTO public.populations VALUES ('pop_kXMDArmKLu6dra6TrtleMN', 'icu', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 5000000000, 0, 500000000, 3, '85b363bac30a411e7a035e2c7c46fbb78e7c066a769a3b60e83b64fbaff2eb38', '2026-11-17T12:58:22.652248+00:00');
INSERT INTO public.populations VALUES ('pop_MD2C7hA743XzcM5zFk0AyM', 'icu', 'key_SPLUWCzGMq3OMhdiIuW6Ud', 9000000000, 500000000, 500000000, 7, '103b27cf26066f1145ce45d6eeece27b1044b9565636168995c4a09f96baf7aa', '2026-11-17T12:58:21.306346+00:00');
INSERT INTO public.releases VALUES ('pol_WqXyENxBKyihNNqrAQrDwi', 'tr_mziMkvK943F2HpJ7TAtirx', 'ds_TTNQQyfMxLUUUTxuzOKaxk', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'dp-apvi', false, '{"actions":{"count":2,"labels":["wait","treat"]},"algorithm":"dp-apvi","decisions":[[0,0,1,0],[0,0,1,0],[1,1,1,1]],"horizon":3,"id":"pol_WqXyENxBKyihNNqrAQrDwi","pessimistic_score":[[0,0,0,0],[0,0,0,0],[0,0,0,0]],"source":[["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"]],"states":{"count":4,"kind":"discrete"},"value_lower_bound":null}', '{"payload": "eyJjb21wb3NpdGlvbiI6IlRoZSDPgSBvZiBHYXVzc2lhbiByZWxlYXNlcyB0aGF0IHJlYWQgdGhlIHNhbWUgdW5pdCBhZGQgdXA7IHRoZSDOtSBvZiBMYXBsYWNlIHJlbGVhc2VzIGFkZCB1cCBhbmQgY291bnQgYXMgzrXCsi8yOyBhIHVuaXQgc2l0cyBpbiBvbmUgaGFsZiBvZiB0aGUgZGF0YSBvbmx5LCBzbyB0aGF0IG9mIHR3byBoYWx2ZXMgdGhlIGRlYXJlciBvbmUgY291bnRzLiIsImRlcml2ZWRfZnJvbSI6bnVsbCwibGVkZ2VyIjp7Imhhc2giOiI2MTQxMTBhNmQwNTg5MDJkNWNiMTU3ZmJlNTM4M2YzNDljOTRjNWZkMjgyMGVmOTA0M2M3MTBkNGUyYzhlYWEwIiwicG9wdWxhdGlvbiI6InBvcF9NRDJDN2hBNzQzWHpjTTV6RmswQXlNIiwic2VxdWVuY2UiOjN9LCJtZWNoYW5pc21zIjpbeyJtZWNoYW5pc20iOiJnYXVzc2lhbiIsInBhcnQiOiJldmVyeW9uZSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmVzb2x1dGlvbiI6IjEvMSIsInJobyI6IjEvNiIsInNjYWxlIjp7ImtpbmQiOiJ2YXJpYW5jZSIsInZhbHVlIjoiMTgvMSJ9LCJzZW5zaXRpdml0eSI6eyJub3JtIjoic3F1YXJlZCBsMiIsInZhbHVlIjoiNi8xIn0sInNoYXBlIjpbMyw0LDJdLCJzdGF0aXN0aWMiOiJ2aXNpdHMgb2YgZWFjaCBzdGF0ZSBhbmQgYWN0aW9uLCBlYWNoIHN0ZXAifSx7Im1lY2hhbmlzbSI6ImdhdXNzaWFuIiwicGFydCI6ImV2ZXJ5b25lIiwicHVyZV9lcHNpbG9uIjpudWxsLCJyZXNvbHV0aW9uIjoiMS8xIiwicmhvIjoiMS82Iiwic2NhbGUiOnsia2luZCI6InZhcmlhbmNlIiwidmFsdWUiOiIxOC8xIn0sInNlbnNpdGl2aXR5Ijp7Im5vcm0iOiJzcXVhcmVkIGwyIiwidmFsdWUiOiI2LzEifSwic2hhcGUiOlszLDQsMiw1XSwic3RhdGlzdGljIjoidHJhbnNpdGlvbnMgZnJvbSBlYWNoIHN0YXRlIGFuZCBhY3Rpb24gdG8gZWFjaCBuZXh0IHN0YXRlIG9yIHRoZSBlbmQsIGVhY2ggc3RlcCJ9LHsibWVjaGFuaXNtIjoiZ2F1c3NpYW4iLCJwYXJ0IjoiZXZlcnlvbmUiLCJwdXJlX2Vwc2lsb24iOm51bGwsInJlc29sdXRpb24iOiIxLzY1NTM2IiwicmhvIjoiMS82Iiwic2NhbGUiOnsia2luZCI6InZhcmlhbmNlIiwidmFsdWUiOiI5LzEifSwic2Vuc2l0aXZpdHkiOnsibm9ybSI6InNxdWFyZWQgbDIiLCJ2YWx1ZSI6IjMvMSJ9LCJzaGFwZSI6WzMsNCwyXSwic3RhdGlzdGljIjoiY2VudHJlZCByZXdhcmRzIG9mIGVhY2ggc3RhdGUgYW5kIGFjdGlvbiwgZWFjaCBzdGVwIn1dLCJub3RfY292ZXJlZCI6WyJIb3cgbG9uZyB0aGUgd29yayB3YWl0ZWQgaW4gdGhlIHF1ZXVlLCBhbmQgd2hldGhlciBpdHMgcmVzdWx0IHdhcyBwdWJsaXNoZWQgYXQgaXRzIHVzdWFsIHRpbWUgb3IgYXQgYSBsYXRlciBvbmUsIHJlbWFpbiB2aXNpYmxlLiIsIlRoZSBzY2hlbWEsIHRoZSBib3VuZHMgaW4gaXQgYW5kIHRoZSBudW1iZXIgb2YgdW5pdHMgYXJlIHB1YmxpYyBhbmQgbm90IHByb3RlY3RlZC4iLCJXaGF0IGlzIHRydWUgb2YgcGF0aWVudHMgYXMgYSBncm91cCBtYXkgYmUgbGVhcm5lZCBmcm9tIHRoZSByZXN1bHQsIGFsc28gYWJvdXQgYSBwYXRpZW50IHdobyBpcyBub3QgaW4gdGhlIGRhdGEuIiwiT3RoZXIgcmVsZWFzZXMgYWJvdXQgdGhlIHNhbWUgcG9wdWxhdGlvbiBjb3N0IGEgz4Egb2YgdGhlaXIgb3duLCBhbmQgdGhlc2UgYWRkIHVwOyBpdHMgbGVkZ2VyIGhhcyB0aGUgc3VtLiIsIkEgcGF0aWVudCB3aG8gYmVsb25ncyB0byBzZXZlcmFsIHBvcHVsYXRpb25zIHBheXMgaW4gZWFjaCBvZiB0aGVtLCBhbmQgdGhlc2UgY29zdHMgYWRkIHVwLiIsIlRoZSBjdXN0b2RpYW4sIGFuZCB3aG9ldmVyIGFkbWluaXN0ZXJzIHRoZSBjb21wdXRlcnMsIGNhbiByZWFkIHRoZSByYXcgZGF0YS4iXSwicG9saWN5Ijp7ImlkIjoicG9sX1dxWHlFTnhCS3lpaE5OcXJBUXJEd2kiLCJzaGEyNTYiOiIzNjQ3Yjg1MGZlYmQ2MjMyMzY3MGI3MWViNmVhMGQ0Mjk4ZjMwNjNhMDg3Y2JhNDEyZGNjMWE4OTE5YTQ1ZDA5In0sInByaXZhY3kiOnsiY2hhcmdlZF9yaG8iOiIwLjUiLCJlcHNpbG9uIjpbeyJkZWx0YSI6IjFlLTUiLCJlcHNpbG9uIjoiNC43MjkifSx7ImRlbHRhIjoiMWUtNiIsImVwc2lsb24iOiI1LjIyMiJ9LHsiZGVsdGEiOiIxZS05IiwiZXBzaWxvbiI6IjYuNDc1In1dLCJmdXJ0aGVyX3JobyI6IjAuNSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmhvIjoiMS8yIn0sInByb21pc2UiOnsiZ3VhcmFudGVlIjoiVGhlIGNvbnRlbnQgb2YgdGhpcyByZWxlYXNlIGlzIM-BLXpDRFAgZm9yIG5laWdoYm91cnMsIHdpdGggdGhlIHRvdGFsIM-BIGJlbG93LiBUaGUgZ3VhcmFudGVlIGlzIGNvbXB1dGF0aW9uYWw6IHRoZSBub2lzZSBjb21lcyBmcm9tIEFFUy0yNTYgaW4gY291bnRlciBtb2RlIHVuZGVyIGEga2V5IG9mIHRoZSBvcGVyYXRpbmcgc3lzdGVtLCBhbmQgdGhlIHByb21pc2UgaG9sZHMgYWdhaW5zdCB3aG9ldmVyIGNhbm5vdCB0ZWxsIHRoYXQgZnJvbSBjaGFuY2UuIiwibmVpZ2hib3VycyI6IlR3byBzaXR1YXRpb25zIGFyZSBuZWlnaGJvdXJzIGlmIHRoZSByZWNvcmRzIG9mIG9uZSB1bml0IGFyZSByZXBsYWNlZCBieSBhbnkgb3RoZXJzIGluIGV2ZXJ5IGRhdGFzZXQgb2YgdGhlIHBvcHVsYXRpb24sIHdoaWxlIHRoZSB1bml0cyB0aGF0IGJlbG9uZyB0byBpdCBzdGF5IHRoZSBzYW1lLiIsInVuaXQiOiJPbmUgdW5pdCBpcyBvbmUgcGF0aWVudCwgd2l0aCBldmVyeXRoaW5nIHJlY29yZGVkIGFib3V0IHRoYXQgcGF0aWVudCBpbiB0aGUgZGF0YXNldC4ifSwicmVxdWVzdCI6eyJhbGdvcml0aG0iOiJkcC1hcHZpIiwiY2hvc2VuIjpudWxsLCJoYWxmIjpudWxsLCJwYXJhbWV0ZXJzIjp7ImMiOjIsImMxIjowLjUsImMyIjowLCJjYWxpYnJhdGlvbiI6InRpZ2h0IiwiZGVsdGEiOjAuMSwiZHluYW1pY3MiOiJwZXJfc3RlcCIsInBlc3NpbWlzbSI6ImJlcm5zdGVpbiIsInJld2FyZCI6bnVsbCwic2hhcmVzIjpbMSwxLDFdfSwicHJpdmFjeSI6eyJyaG8iOiIwLjUifSwic2NoZW1hIjp7ImFjdGlvbnMiOnsiY291bnQiOjIsImxhYmVscyI6WyJ3YWl0IiwidHJlYXQiXX0sImhvcml6b24iOjMsIm1heF90cmFqZWN0b3JpZXNfcGVyX3VuaXQiOjEsInJld2FyZCI6eyJoaWdoIjoxLCJsb3ciOjB9LCJzdGF0ZXMiOnsiY291bnQiOjQsImtpbmQiOiJkaXNjcmV0ZSJ9fSwidW5pdHMiOjQwfSwic29mdHdhcmUiOnsibmFtZSI6ImRpc2NyZXRpb24iLCJ2ZXJzaW9uIjoiMC4xLjAifSwidmVyc2lvbiI6MX0", "protected": "eyJhbGciOiJFZERTQSIsImtpZCI6Ilo5TkhYZ0lYNzU5dDFPOG9yejY1TExqR3UxV0JXaDZMYjMyYl9TeklDd28iLCJ0eXAiOiJkaXNjcmV0aW9uLWNlcnRpZmljYXRlK2p3cyJ9", "signature": "7Tdzxpcl1VUqAjDBal7FaGG1vKPkW1_IGkTmo7dak7PTkbkpfRd1w_ICCITnb49ibtBzSrMmSxiF5pdPw5xKAA"}', '2026-11-17T12:58:26.545468+00:00');
INSERT INTO public.releases VALUES ('pol_7if2xlHlmddN47PxTL19m3', 'tr_mziMkvK943F2HpJ7TAtirx', 'ds_TTNQQyfMxLUUUTxuzOKaxk', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'dp-apvi', true, '{"actions":{"count":2,"labels":["wait","treat"]},"algorithm":"dp-apvi","decisions":[[0,0,1,0],[0,0,1,0],[1,1,1,1]],"horizon":3,"id":"pol_7if2xlHlmddN47PxTL19m3","pessimistic_score":[[0,0,0,0],[0,0,0,0],[0,0,0,0]],"source":[["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"]],"states":{"count":4,"kind":"discrete"},"value_lower_bound":null}', '{"payload": "eyJjb21wb3NpdGlvbiI6IlRoZSDPgSBvZiBHYXVzc2lhbiByZWxlYXNlcyB0aGF0IHJlYWQgdGhlIHNhbWUgdW5pdCBhZGQgdXA7IHRoZSDOtSBvZiBMYXBsYWNlIHJlbGVhc2VzIGFkZCB1cCBhbmQgY291bnQgYXMgzrXCsi8yOyBhIHVuaXQgc2l0cyBpbiBvbmUgaGFsZiBvZiB0aGUgZGF0YSBvbmx5LCBzbyB0aGF0IG9mIHR3byBoYWx2ZXMgdGhlIGRlYXJlciBvbmUgY291bnRzLiIsImRlcml2ZWRfZnJvbSI6eyJwYXJhbWV0ZXJzIjp7ImMiOjIsImMxIjowLjUsImMyIjowLCJjYWxpYnJhdGlvbiI6InRpZ2h0IiwiZGVsdGEiOjAuMSwiZHluYW1pY3MiOiJwZXJfc3RlcCIsInBlc3NpbWlzbSI6ImJlcm5zdGVpbiIsInJld2FyZCI6bnVsbCwic2hhcmVzIjpbMSwxLDFdfSwidHJhaW5pbmciOiJ0cl9temlNa3ZLOTQzRjJIcEo3VEF0aXJ4In0sImxlZGdlciI6eyJoYXNoIjoiNjE0MTEwYTZkMDU4OTAyZDVjYjE1N2ZiZTUzODNmMzQ5Yzk0YzVmZDI4MjBlZjkwNDNjNzEwZDRlMmM4ZWFhMCIsInBvcHVsYXRpb24iOiJwb3BfTUQyQzdoQTc0M1h6Y001ekZrMEF5TSIsInNlcXVlbmNlIjozfSwibWVjaGFuaXNtcyI6W3sibWVjaGFuaXNtIjoiZ2F1c3NpYW4iLCJwYXJ0IjoiZXZlcnlvbmUiLCJwdXJlX2Vwc2lsb24iOm51bGwsInJlc29sdXRpb24iOiIxLzEiLCJyaG8iOiIxLzYiLCJzY2FsZSI6eyJraW5kIjoidmFyaWFuY2UiLCJ2YWx1ZSI6IjE4LzEifSwic2Vuc2l0aXZpdHkiOnsibm9ybSI6InNxdWFyZWQgbDIiLCJ2YWx1ZSI6IjYvMSJ9LCJzaGFwZSI6WzMsNCwyXSwic3RhdGlzdGljIjoidmlzaXRzIG9mIGVhY2ggc3RhdGUgYW5kIGFjdGlvbiwgZWFjaCBzdGVwIn0seyJtZWNoYW5pc20iOiJnYXVzc2lhbiIsInBhcnQiOiJldmVyeW9uZSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmVzb2x1dGlvbiI6IjEvMSIsInJobyI6IjEvNiIsInNjYWxlIjp7ImtpbmQiOiJ2YXJpYW5jZSIsInZhbHVlIjoiMTgvMSJ9LCJzZW5zaXRpdml0eSI6eyJub3JtIjoic3F1YXJlZCBsMiIsInZhbHVlIjoiNi8xIn0sInNoYXBlIjpbMyw0LDIsNV0sInN0YXRpc3RpYyI6InRyYW5zaXRpb25zIGZyb20gZWFjaCBzdGF0ZSBhbmQgYWN0aW9uIHRvIGVhY2ggbmV4dCBzdGF0ZSBvciB0aGUgZW5kLCBlYWNoIHN0ZXAifSx7Im1lY2hhbmlzbSI6ImdhdXNzaWFuIiwicGFydCI6ImV2ZXJ5b25lIiwicHVyZV9lcHNpbG9uIjpudWxsLCJyZXNvbHV0aW9uIjoiMS82NTUzNiIsInJobyI6IjEvNiIsInNjYWxlIjp7ImtpbmQiOiJ2YXJpYW5jZSIsInZhbHVlIjoiOS8xIn0sInNlbnNpdGl2aXR5Ijp7Im5vcm0iOiJzcXVhcmVkIGwyIiwidmFsdWUiOiIzLzEifSwic2hhcGUiOlszLDQsMl0sInN0YXRpc3RpYyI6ImNlbnRyZWQgcmV3YXJkcyBvZiBlYWNoIHN0YXRlIGFuZCBhY3Rpb24sIGVhY2ggc3RlcCJ9XSwibm90X2NvdmVyZWQiOlsiSG93IGxvbmcgdGhlIHdvcmsgd2FpdGVkIGluIHRoZSBxdWV1ZSwgYW5kIHdoZXRoZXIgaXRzIHJlc3VsdCB3YXMgcHVibGlzaGVkIGF0IGl0cyB1c3VhbCB0aW1lIG9yIGF0IGEgbGF0ZXIgb25lLCByZW1haW4gdmlzaWJsZS4iLCJUaGUgc2NoZW1hLCB0aGUgYm91bmRzIGluIGl0IGFuZCB0aGUgbnVtYmVyIG9mIHVuaXRzIGFyZSBwdWJsaWMgYW5kIG5vdCBwcm90ZWN0ZWQuIiwiV2hhdCBpcyB0cnVlIG9mIHBhdGllbnRzIGFzIGEgZ3JvdXAgbWF5IGJlIGxlYXJuZWQgZnJvbSB0aGUgcmVzdWx0LCBhbHNvIGFib3V0IGEgcGF0aWVudCB3aG8gaXMgbm90IGluIHRoZSBkYXRhLiIsIk90aGVyIHJlbGVhc2VzIGFib3V0IHRoZSBzYW1lIHBvcHVsYXRpb24gY29zdCBhIM-BIG9mIHRoZWlyIG93biwgYW5kIHRoZXNlIGFkZCB1cDsgaXRzIGxlZGdlciBoYXMgdGhlIHN1bS4iLCJBIHBhdGllbnQgd2hvIGJlbG9uZ3MgdG8gc2V2ZXJhbCBwb3B1bGF0aW9ucyBwYXlzIGluIGVhY2ggb2YgdGhlbSwgYW5kIHRoZXNlIGNvc3RzIGFkZCB1cC4iLCJUaGUgY3VzdG9kaWFuLCBhbmQgd2hvZXZlciBhZG1pbmlzdGVycyB0aGUgY29tcHV0ZXJzLCBjYW4gcmVhZCB0aGUgcmF3IGRhdGEuIl0sInBvbGljeSI6eyJpZCI6InBvbF83aWYyeGxIbG1kZE40N1B4VEwxOW0zIiwic2hhMjU2IjoiNzRjZmRmNDI0Yjg0YmMyZDI5Y2Q3NmM2Nzk3NGY4YjRkZTZkMzY1OTAwMjkwZTI2NGUyOGFlODhmZDgwNmVjMSJ9LCJwcml2YWN5Ijp7ImNoYXJnZWRfcmhvIjoiMC41IiwiZXBzaWxvbiI6W3siZGVsdGEiOiIxZS01IiwiZXBzaWxvbiI6IjQuNzI5In0seyJkZWx0YSI6IjFlLTYiLCJlcHNpbG9uIjoiNS4yMjIifSx7ImRlbHRhIjoiMWUtOSIsImVwc2lsb24iOiI2LjQ3NSJ9XSwiZnVydGhlcl9yaG8iOiIwIiwicHVyZV9lcHNpbG9uIjpudWxsLCJyaG8iOiIxLzIifSwicHJvbWlzZSI6eyJndWFyYW50ZWUiOiJUaGUgY29udGVudCBvZiB0aGlzIHJlbGVhc2UgaXMgz4EtekNEUCBmb3IgbmVpZ2hib3Vycywgd2l0aCB0aGUgdG90YWwgz4EgYmVsb3cuIFRoZSBndWFyYW50ZWUgaXMgY29tcHV0YXRpb25hbDogdGhlIG5vaXNlIGNvbWVzIGZyb20gQUVTLTI1NiBpbiBjb3VudGVyIG1vZGUgdW5kZXIgYSBrZXkgb2YgdGhlIG9wZXJhdGluZyBzeXN0ZW0sIGFuZCB0aGUgcHJvbWlzZSBob2xkcyBhZ2FpbnN0IHdob2V2ZXIgY2Fubm90IHRlbGwgdGhhdCBmcm9tIGNoYW5jZS4iLCJuZWlnaGJvdXJzIjoiVHdvIHNpdHVhdGlvbnMgYXJlIG5laWdoYm91cnMgaWYgdGhlIHJlY29yZHMgb2Ygb25lIHVuaXQgYXJlIHJlcGxhY2VkIGJ5IGFueSBvdGhlcnMgaW4gZXZlcnkgZGF0YXNldCBvZiB0aGUgcG9wdWxhdGlvbiwgd2hpbGUgdGhlIHVuaXRzIHRoYXQgYmVsb25nIHRvIGl0IHN0YXkgdGhlIHNhbWUuIiwidW5pdCI6Ik9uZSB1bml0IGlzIG9uZSBwYXRpZW50LCB3aXRoIGV2ZXJ5dGhpbmcgcmVjb3JkZWQgYWJvdXQgdGhhdCBwYXRpZW50IGluIHRoZSBkYXRhc2V0LiJ9LCJyZXF1ZXN0Ijp7ImFsZ29yaXRobSI6ImRwLWFwdmkiLCJjaG9zZW4iOm51bGwsImhhbGYiOm51bGwsInBhcmFtZXRlcnMiOnsiYyI6MiwiYzEiOjEuNDE0MjEzNTYyMzczMDk1MSwiYzIiOjE2LCJjYWxpYnJhdGlvbiI6InRpZ2h0IiwiZGVsdGEiOjAuMSwiZHluYW1pY3MiOiJwZXJfc3RlcCIsInBlc3NpbWlzbSI6ImJlcm5zdGVpbiIsInJld2FyZCI6bnVsbCwic2hhcmVzIjpbMSwxLDFdfSwicHJpdmFjeSI6eyJyaG8iOiIwLjUifSwic2NoZW1hIjp7ImFjdGlvbnMiOnsiY291bnQiOjIsImxhYmVscyI6WyJ3YWl0IiwidHJlYXQiXX0sImhvcml6b24iOjMsIm1heF90cmFqZWN0b3JpZXNfcGVyX3VuaXQiOjEsInJld2FyZCI6eyJoaWdoIjoxLCJsb3ciOjB9LCJzdGF0ZXMiOnsiY291bnQiOjQsImtpbmQiOiJkaXNjcmV0ZSJ9fSwidW5pdHMiOjQwfSwic29mdHdhcmUiOnsibmFtZSI6ImRpc2NyZXRpb24iLCJ2ZXJzaW9uIjoiMC4xLjAifSwidmVyc2lvbiI6MX0", "protected": "eyJhbGciOiJFZERTQSIsImtpZCI6Ilo5TkhYZ0lYNzU5dDFPOG9yejY1TExqR3UxV0JXaDZMYjMyYl9TeklDd28iLCJ0eXAiOiJkaXNjcmV0aW9uLWNlcnRpZmljYXRlK2p3cyJ9", "signature": "2yGUxa8kCJ3Ug3Vio2rKYmJbb4DHtYnU8fY-sRtVJUP0-C79vuOmTYh5vG1QcWukcLqB3aOevz8LgNVukCAzCw"}', '2026-11-17T12:58:26.645979+00:00');
INSERT INTO public.releases VALUES ('pol_uOjldX9pzZlFwvcPfLoAem', 'tr_Y5RgxgSHrCDUT17Th8XipH', 'ds_EQNPPZVe8nBBEpFELe9xuj', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'dp-apvi', false, '{"actions":{"count":2,"labels":["wait","treat"]},"algorithm":"dp-apvi","decisions":[[1,0,0,1],[0,1,1,1],[1,1,0,1]],"horizon":3,"id":"pol_uOjldX9pzZlFwvcPfLoAem","pessimistic_score":[[0,0,0,0],[0,0,0,0],[0,0,0,0]],"source":[["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"]],"states":{"count":4,"kind":"discrete"},"value_lower_bound":null}', '{"payload": "eyJjb21wb3NpdGlvbiI6IlRoZSDPgSBvZiBHYXVzc2lhbiByZWxlYXNlcyB0aGF0IHJlYWQgdGhlIHNhbWUgdW5pdCBhZGQgdXA7IHRoZSDOtSBvZiBMYXBsYWNlIHJlbGVhc2VzIGFkZCB1cCBhbmQgY291bnQgYXMgzrXCsi8yOyBhIHVuaXQgc2l0cyBpbiBvbmUgaGFsZiBvZiB0aGUgZGF0YSBvbmx5LCBzbyB0aGF0IG9mIHR3byBoYWx2ZXMgdGhlIGRlYXJlciBvbmUgY291bnRzLiIsImRlcml2ZWRfZnJvbSI6bnVsbCwibGVkZ2VyIjp7Imhhc2giOiJmNmNlYWVmNmNiYzAyODY3OTc3NmQ0NjI3NjQyZDQ5ZjJjN2JlOTk3ZTQ2NWY4ZTI4OTk2MzU2YmJlYmM2OWQwIiwicG9wdWxhdGlvbiI6InBvcF80VThlSEpWajh4MnJSTTlJZlZSb0lXIiwic2VxdWVuY2UiOjN9LCJtZWNoYW5pc21zIjpbeyJtZWNoYW5pc20iOiJnYXVzc2lhbiIsInBhcnQiOiJldmVyeW9uZSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmVzb2x1dGlvbiI6IjEvMSIsInJobyI6IjEvNiIsInNjYWxlIjp7ImtpbmQiOiJ2YXJpYW5jZSIsInZhbHVlIjoiMTgvMSJ9LCJzZW5zaXRpdml0eSI6eyJub3JtIjoic3F1YXJlZCBsMiIsInZhbHVlIjoiNi8xIn0sInNoYXBlIjpbMyw0LDJdLCJzdGF0aXN0aWMiOiJ2aXNpdHMgb2YgZWFjaCBzdGF0ZSBhbmQgYWN0aW9uLCBlYWNoIHN0ZXAifSx7Im1lY2hhbmlzbSI6ImdhdXNzaWFuIiwicGFydCI6ImV2ZXJ5b25lIiwicHVyZV9lcHNpbG9uIjpudWxsLCJyZXNvbHV0aW9uIjoiMS8xIiwicmhvIjoiMS82Iiwic2NhbGUiOnsia2luZCI6InZhcmlhbmNlIiwidmFsdWUiOiIxOC8xIn0sInNlbnNpdGl2aXR5Ijp7Im5vcm0iOiJzcXVhcmVkIGwyIiwidmFsdWUiOiI2LzEifSwic2hhcGUiOlszLDQsMiw1XSwic3RhdGlzdGljIjoidHJhbnNpdGlvbnMgZnJvbSBlYWNoIHN0YXRlIGFuZCBhY3Rpb24gdG8gZWFjaCBuZXh0IHN0YXRlIG9yIHRoZSBlbmQsIGVhY2ggc3RlcCJ9LHsibWVjaGFuaXNtIjoiZ2F1c3NpYW4iLCJwYXJ0IjoiZXZlcnlvbmUiLCJwdXJlX2Vwc2lsb24iOm51bGwsInJlc29sdXRpb24iOiIxLzY1NTM2IiwicmhvIjoiMS82Iiwic2NhbGUiOnsia2luZCI6InZhcmlhbmNlIiwidmFsdWUiOiI5LzEifSwic2Vuc2l0aXZpdHkiOnsibm9ybSI6InNxdWFyZWQgbDIiLCJ2YWx1ZSI6IjMvMSJ9LCJzaGFwZSI6WzMsNCwyXSwic3RhdGlzdGljIjoiY2VudHJlZCByZXdhcmRzIG9mIGVhY2ggc3RhdGUgYW5kIGFjdGlvbiwgZWFjaCBzdGVwIn1dLCJub3RfY292ZXJlZCI6WyJIb3cgbG9uZyB0aGUgd29yayB3YWl0ZWQgaW4gdGhlIHF1ZXVlLCBhbmQgd2hldGhlciBpdHMgcmVzdWx0IHdhcyBwdWJsaXNoZWQgYXQgaXRzIHVzdWFsIHRpbWUgb3IgYXQgYSBsYXRlciBvbmUsIHJlbWFpbiB2aXNpYmxlLiIsIlRoZSBzY2hlbWEsIHRoZSBib3VuZHMgaW4gaXQgYW5kIHRoZSBudW1iZXIgb2YgdW5pdHMgYXJlIHB1YmxpYyBhbmQgbm90IHByb3RlY3RlZC4iLCJXaGF0IGlzIHRydWUgb2YgcGF0aWVudHMgYXMgYSBncm91cCBtYXkgYmUgbGVhcm5lZCBmcm9tIHRoZSByZXN1bHQsIGFsc28gYWJvdXQgYSBwYXRpZW50IHdobyBpcyBub3QgaW4gdGhlIGRhdGEuIiwiT3RoZXIgcmVsZWFzZXMgYWJvdXQgdGhlIHNhbWUgcG9wdWxhdGlvbiBjb3N0IGEgz4Egb2YgdGhlaXIgb3duLCBhbmQgdGhlc2UgYWRkIHVwOyBpdHMgbGVkZ2VyIGhhcyB0aGUgc3VtLiIsIkEgcGF0aWVudCB3aG8gYmVsb25ncyB0byBzZXZlcmFsIHBvcHVsYXRpb25zIHBheXMgaW4gZWFjaCBvZiB0aGVtLCBhbmQgdGhlc2UgY29zdHMgYWRkIHVwLiIsIlRoZSBjdXN0b2RpYW4sIGFuZCB3aG9ldmVyIGFkbWluaXN0ZXJzIHRoZSBjb21wdXRlcnMsIGNhbiByZWFkIHRoZSByYXcgZGF0YS4iXSwicG9saWN5Ijp7ImlkIjoicG9sX3VPamxkWDlwelpsRnd2Y1BmTG9BZW0iLCJzaGEyNTYiOiI0OTI1MDg5MjY2ZTc5YThhZjRhMTcwZWZhMDU2MGFiOWZlYzQ1OTNjMjk4NWIyYzdmZGEzZTVlODU2YmE3NGFlIn0sInByaXZhY3kiOnsiY2hhcmdlZF9yaG8iOiIwLjUiLCJlcHNpbG9uIjpbeyJkZWx0YSI6IjFlLTUiLCJlcHNpbG9uIjoiNC43MjkifSx7ImRlbHRhIjoiMWUtNiIsImVwc2lsb24iOiI1LjIyMiJ9LHsiZGVsdGEiOiIxZS05IiwiZXBzaWxvbiI6IjYuNDc1In1dLCJmdXJ0aGVyX3JobyI6IjAuNSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmhvIjoiMS8yIn0sInByb21pc2UiOnsiZ3VhcmFudGVlIjoiVGhlIGNvbnRlbnQgb2YgdGhpcyByZWxlYXNlIGlzIM-BLXpDRFAgZm9yIG5laWdoYm91cnMsIHdpdGggdGhlIHRvdGFsIM-BIGJlbG93LiBUaGUgZ3VhcmFudGVlIGlzIGNvbXB1dGF0aW9uYWw6IHRoZSBub2lzZSBjb21lcyBmcm9tIEFFUy0yNTYgaW4gY291bnRlciBtb2RlIHVuZGVyIGEga2V5IG9mIHRoZSBvcGVyYXRpbmcgc3lzdGVtLCBhbmQgdGhlIHByb21pc2UgaG9sZHMgYWdhaW5zdCB3aG9ldmVyIGNhbm5vdCB0ZWxsIHRoYXQgZnJvbSBjaGFuY2UuIiwibmVpZ2hib3VycyI6IlR3byBzaXR1YXRpb25zIGFyZSBuZWlnaGJvdXJzIGlmIHRoZSByZWNvcmRzIG9mIG9uZSB1bml0IGFyZSByZXBsYWNlZCBieSBhbnkgb3RoZXJzIGluIGV2ZXJ5IGRhdGFzZXQgb2YgdGhlIHBvcHVsYXRpb24sIHdoaWxlIHRoZSB1bml0cyB0aGF0IGJlbG9uZyB0byBpdCBzdGF5IHRoZSBzYW1lLiIsInVuaXQiOiJPbmUgdW5pdCBpcyBvbmUgcGF0aWVudCwgd2l0aCBldmVyeXRoaW5nIHJlY29yZGVkIGFib3V0IHRoYXQgcGF0aWVudCBpbiB0aGUgZGF0YXNldC4ifSwicmVxdWVzdCI6eyJhbGdvcml0aG0iOiJkcC1hcHZpIiwiY2hvc2VuIjpudWxsLCJoYWxmIjpudWxsLCJwYXJhbWV0ZXJzIjp7ImMiOjIsImMxIjowLjUsImMyIjowLCJjYWxpYnJhdGlvbiI6InRpZ2h0IiwiZGVsdGEiOjAuMSwiZHluYW1pY3MiOiJwZXJfc3RlcCIsInBlc3NpbWlzbSI6ImJlcm5zdGVpbiIsInJld2FyZCI6bnVsbCwic2hhcmVzIjpbMSwxLDFdfSwicHJpdmFjeSI6eyJyaG8iOiIwLjUifSwic2NoZW1hIjp7ImFjdGlvbnMiOnsiY291bnQiOjIsImxhYmVscyI6WyJ3YWl0IiwidHJlYXQiXX0sImhvcml6b24iOjMsIm1heF90cmFqZWN0b3JpZXNfcGVyX3VuaXQiOjEsInJld2FyZCI6eyJoaWdoIjoxLCJsb3ciOjB9LCJzdGF0ZXMiOnsiY291bnQiOjQsImtpbmQiOiJkaXNjcmV0ZSJ9fSwidW5pdHMiOjIwfSwic29mdHdhcmUiOnsibmFtZSI6ImRpc2NyZXRpb24iLCJ2ZXJzaW9uIjoiMC4xLjAifSwidmVyc2lvbiI6MX0", "protected": "eyJhbGciOiJFZERTQSIsImtpZCI6Ilo5TkhYZ0lYNzU5dDFPOG9yejY1TExqR3UxV0JXaDZMYjMyYl9TeklDd28iLCJ0eXAiOiJkaXNjcmV0aW9uLWNlcnRpZmljYXRlK2p3cyJ9", "signature": "MkMiJ8rzR2CcpWbOsTCRoj7twTeTUf6Loov22NuijMIULYw98_ieRG3pRkbgcuFfY_T-v6NuNQzNGCZHAKOwCQ"}', '2026-11-17T12:58:29.201330+00:00');
INSERT INTO public.signing_keys VALUES ('Z9NHXgIX759t1O8orz65LLjGu1WBWh6Lb32b_SzICwo', '{"kty": "OKP", "crv": "Ed25519", "x": "LG_9wRHTgYddWjRUJlBw7K62aWqfa38VbBpBD8k5tTk", "kid": "Z9NHXgIX759t1O8orz65LLjGu1WBWh6Lb32b_SzICwo", "alg": "EdDSA", "use": "sig"}', '2026-11-17T12:58:20.731603+00:00');
INSERT INTO public.trainings VALUES ('tr_Y5RgxgSHrCDUT17Th8XipH', 'ds_EQNPPZVe8nBBEpFELe9xuj', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'released 1', 'gr_vaN9c4ETO30VR7cFWdLrpN', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'released', NULL, 4, 4, 1, '2026-11-17T12:58:27.138764+00:00', 1, '2026-11-17T12:58:44.057541+00:00', '2026-11-17T12:58:26.824751+00:00');
INSERT INTO public.trainings VALUES ('tr_XpaA54mdjbsjSMh1QGj71z', 'ds_yviXTcGLtOVoxDWJfPjPDU', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'running', 'gr_Hauy97TubmMq9f1Blvm8uR', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'running', NULL, 4, 0, 0, '2026-11-17T12:58:29.521616+00:00', 1, '2026-11-17T12:58:30.037594+00:00', '2026-11-17T12:58:29.272979+00:00');
INSERT INTO public.trainings VALUES ('tr_Ej9vEpLVKzf9vzdSYRJgjh', 'ds_TTNQQyfMxLUUUTxuzOKaxk', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'cancelled', 'gr_o3GofyKllx9zqS330sLjJY', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'cancelled', NULL, 4, 0, 0, NULL, 1, NULL, '2026-11-17T12:58:34.151093+00:00');
INSERT INTO public.trainings VALUES ('tr_iacOQ2PuikDCwOTefs7iIi', 'ds_TTNQQyfMxLUUUTxuzOKaxk', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'queued', 'gr_o3GofyKllx9zqS330sLjJY', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'queued', NULL, 4, 0, 0, NULL, 0, NULL, '2026-11-17T12:58:34.191781+00:00');
INSERT INTO public.trainings VALUES ('tr_mziMkvK943F2HpJ7TAtirx', 'ds_TTNQQyfMxLUUUTxuzOKaxk', 'key_bPwTgTO9ZirmJH7Jx1QXmJ', 'released 0', 'gr_o3GofyKllx9zqS330sLjJY', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'released', NULL, 4, 4, 1, '2026-11-17T12:58:24.488130+00:00', 1, '2026-11-17T12:58:41.397174+00:00', '2026-11-17T12:58:22.875998+00:00');
SELECT pg_catalog.setval('public.audit_sequence_seq', 25, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.audit
    ADD CONSTRAINT pk_audit PRIMARY KEY (sequence);
ALTER TABLE ONLY public.datasets
    ADD CONSTRAINT pk_datasets PRIMARY KEY (id);
ALTER TABLE ONLY public.drawn
    ADD CONSTRAINT pk_drawn PRIMARY KEY (training, number, piece);
ALTER TABLE ONLY public.draws
    ADD CONSTRAINT pk_draws PRIMARY KEY (training, number);
ALTER TABLE ONLY public.grants
    ADD CONSTRAINT pk_grants PRIMARY KEY (id);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT pk_keys PRIMARY KEY (id);
ALTER TABLE ONLY public.ledger
    ADD CONSTRAINT pk_ledger PRIMARY KEY (population, sequence);
ALTER TABLE ONLY public.populations
    ADD CONSTRAINT pk_populations PRIMARY KEY (id);
ALTER TABLE ONLY public.releases
    ADD CONSTRAINT pk_releases PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT pk_sessions PRIMARY KEY (hash);
ALTER TABLE ONLY public.signing_keys
    ADD CONSTRAINT pk_signing_keys PRIMARY KEY (kid);
ALTER TABLE ONLY public.trainings
    ADD CONSTRAINT pk_trainings PRIMARY KEY (id);
ALTER TABLE ONLY public.uploads
    ADD CONSTRAINT pk_uploads PRIMARY KEY (folder);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT uq_keys_token_hash UNIQUE (token_hash);
ALTER TABLE ONLY public.trainings
    ADD CONSTRAINT uq_trainings_actor_idempotency_key UNIQUE (actor, idempotency_key);
CREATE UNIQUE INDEX ix_ledger_left ON public.ledger USING btree (training) WHERE ((kind)::text = ANY ((ARRAY['charge'::character varying, 'give_back'::character varying])::text[]));
CREATE UNIQUE INDEX ix_ledger_reserved ON public.ledger USING btree (training) WHERE ((kind)::text = 'reserve'::text);
CREATE UNIQUE INDEX ix_releases_first ON public.releases USING btree (training) WHERE (NOT derived);
CREATE UNIQUE INDEX uq_keys_issuer_subject ON public.keys USING btree (issuer, subject);
CREATE TRIGGER audit_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.audit FOR EACH STATEMENT EXECUTE FUNCTION public.audit_append_only();
CREATE TRIGGER drawn_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.drawn FOR EACH STATEMENT EXECUTE FUNCTION public.drawn_append_only();
CREATE TRIGGER ledger_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.ledger FOR EACH STATEMENT EXECUTE FUNCTION public.ledger_append_only();
CREATE TRIGGER ledger_head AFTER INSERT ON public.ledger FOR EACH ROW EXECUTE FUNCTION public.ledger_head();
CREATE TRIGGER releases_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.releases FOR EACH STATEMENT EXECUTE FUNCTION public.releases_append_only();
CREATE TRIGGER signing_keys_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.signing_keys FOR EACH STATEMENT EXECUTE FUNCTION public.signing_keys_append_only();
ALTER TABLE ONLY public.datasets
    ADD CONSTRAINT fk_datasets_population FOREIGN KEY (population) REFERENCES public.populations(id);
ALTER TABLE ONLY public.drawn
    ADD CONSTRAINT fk_drawn_draws FOREIGN KEY (training, number) REFERENCES public.draws(training, number);
ALTER TABLE ONLY public.draws
    ADD CONSTRAINT fk_draws_training FOREIGN KEY (training) REFERENCES public.trainings(id);
ALTER TABLE ONLY public.grants
    ADD CONSTRAINT fk_grants_dataset FOREIGN KEY (dataset) REFERENCES public.datasets(id);
ALTER TABLE ONLY public.grants
    ADD CONSTRAINT fk_grants_holder FOREIGN KEY (holder) REFERENCES public.keys(id);
ALTER TABLE ONLY public.grants
    ADD CONSTRAINT fk_grants_population FOREIGN KEY (population) REFERENCES public.populations(id);
ALTER TABLE ONLY public.ledger
    ADD CONSTRAINT fk_ledger_population FOREIGN KEY (population) REFERENCES public.populations(id);
ALTER TABLE ONLY public.releases
    ADD CONSTRAINT fk_releases_dataset FOREIGN KEY (dataset) REFERENCES public.datasets(id);
ALTER TABLE ONLY public.releases
    ADD CONSTRAINT fk_releases_training FOREIGN KEY (training) REFERENCES public.trainings(id);
ALTER TABLE ONLY public.trainings
    ADD CONSTRAINT fk_trainings_dataset FOREIGN KEY (dataset) REFERENCES public.datasets(id);
ALTER TABLE ONLY public.trainings
    ADD CONSTRAINT fk_trainings_grant_id FOREIGN KEY (grant_id) REFERENCES public.grants(id);
ALTER TABLE ONLY public.uploads
    ADD CONSTRAINT fk_uploads_dataset FOREIGN KEY (dataset) REFERENCES public.datasets(id);
