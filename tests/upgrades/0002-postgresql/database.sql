SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
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
    used_at character varying(32) NOT NULL
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
INSERT INTO public.alembic_version VALUES ('0002');
INSERT INTO public.audit VALUES (1, '2026-11-17T03:08:04.825124+00:00', 'key_2s5LsUmoCoS02aL1uv1u3L', 'key.create', 'key_2s5LsUmoCoS02aL1uv1u3L');
INSERT INTO public.audit VALUES (2, '2026-11-17T03:08:05.272676+00:00', 'key_2s5LsUmoCoS02aL1uv1u3L', 'key.create', 'key_ByjU9REUQCQtVos6bKfKMa');
INSERT INTO public.audit VALUES (3, '2026-11-17T03:08:05.305039+00:00', 'key_2s5LsUmoCoS02aL1uv1u3L', 'key.create', 'key_NlRDVPJrVAQYOvPsdydBKd');
INSERT INTO public.audit VALUES (4, '2026-11-17T03:08:05.340603+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'population.create', 'pop_WGygWNAPYMxqbNzGkTEq4u');
INSERT INTO public.audit VALUES (5, '2026-11-17T03:08:05.340603+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'dataset.create', 'ds_NG5WhElRAvy4bBz8SL4ktn');
INSERT INTO public.audit VALUES (6, '2026-11-17T03:08:05.421337+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'dataset.upload', 'ds_NG5WhElRAvy4bBz8SL4ktn');
INSERT INTO public.audit VALUES (7, '2026-11-17T03:08:05.589136+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'population.create', 'pop_Rk6ZII9awg8KRfSCbNb4ie');
INSERT INTO public.audit VALUES (8, '2026-11-17T03:08:05.589136+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'dataset.create', 'ds_cPMztvKz12eAXpPIjTSkZC');
INSERT INTO public.audit VALUES (9, '2026-11-17T03:08:05.636432+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'dataset.upload', 'ds_cPMztvKz12eAXpPIjTSkZC');
INSERT INTO public.audit VALUES (10, '2026-11-17T03:08:05.780556+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'population.create', 'pop_Wig8izLwQCRF0yhe37B7S5');
INSERT INTO public.audit VALUES (11, '2026-11-17T03:08:05.780556+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'dataset.create', 'ds_LzrCpgTc5F6NC6HWhJ0EvW');
INSERT INTO public.audit VALUES (12, '2026-11-17T03:08:05.799106+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'dataset.upload', 'ds_LzrCpgTc5F6NC6HWhJ0EvW');
INSERT INTO public.audit VALUES (13, '2026-11-17T03:08:05.844591+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'grant.create', 'gr_SIUENBy4cJbtNDezUeMRl1');
INSERT INTO public.audit VALUES (14, '2026-11-17T03:08:05.862709+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'grant.create', 'gr_L3hclhL1Q5pwfyTYvyidYp');
INSERT INTO public.audit VALUES (15, '2026-11-17T03:08:05.899395+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'grant.create', 'gr_wWrVc2zwVHcuF65xlZRrlI');
INSERT INTO public.audit VALUES (16, '2026-11-17T03:08:05.933061+00:00', 'key_NlRDVPJrVAQYOvPsdydBKd', 'training.submit', 'tr_g0HyLfGgiinAEH7QW3cfzo');
INSERT INTO public.audit VALUES (17, '2026-11-17T03:08:10.582076+00:00', 'key_NlRDVPJrVAQYOvPsdydBKd', 'policy.derive', 'pol_wezKtnxDxcEmtN2equoRo8');
INSERT INTO public.audit VALUES (18, '2026-11-17T03:08:10.630063+00:00', 'key_NlRDVPJrVAQYOvPsdydBKd', 'training.submit', 'tr_XBJgk4GNV9xpWQvbFINxHc');
INSERT INTO public.audit VALUES (19, '2026-11-17T03:08:12.978190+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'dataset.retire', 'ds_cPMztvKz12eAXpPIjTSkZC');
INSERT INTO public.audit VALUES (20, '2026-11-17T03:08:13.011801+00:00', 'key_ByjU9REUQCQtVos6bKfKMa', 'budget.change', 'pop_WGygWNAPYMxqbNzGkTEq4u');
INSERT INTO public.audit VALUES (21, '2026-11-17T03:08:13.020478+00:00', 'key_NlRDVPJrVAQYOvPsdydBKd', 'training.submit', 'tr_3affsYGIqtyLGbfunOqmlr');
INSERT INTO public.audit VALUES (22, '2026-11-17T03:08:19.086998+00:00', 'key_NlRDVPJrVAQYOvPsdydBKd', 'training.submit', 'tr_6XI79gVxhHSV2JVEycIbUk');
INSERT INTO public.audit VALUES (23, '2026-11-17T03:08:19.118129+00:00', 'key_NlRDVPJrVAQYOvPsdydBKd', 'training.cancel', 'tr_6XI79gVxhHSV2JVEycIbUk');
INSERT INTO public.audit VALUES (24, '2026-11-17T03:08:19.138888+00:00', 'key_NlRDVPJrVAQYOvPsdydBKd', 'training.submit', 'tr_QvCGRt3OvYnsnHOl9VlOqt');
INSERT INTO public.datasets VALUES ('ds_NG5WhElRAvy4bBz8SL4ktn', 'pop_WGygWNAPYMxqbNzGkTEq4u', 'key_ByjU9REUQCQtVos6bKfKMa', 'icu', 'ready', '{"actions":{"count":2,"labels":["wait","treat"]},"horizon":3,"max_trajectories_per_unit":1,"reward":{"high":1,"low":0},"states":{"count":4,"kind":"discrete"}}', 40, 'up_uYRZoWbhxZXtuPOiOgnuUt', '2026-11-17T03:08:05.340603+00:00');
INSERT INTO public.datasets VALUES ('ds_LzrCpgTc5F6NC6HWhJ0EvW', 'pop_Wig8izLwQCRF0yhe37B7S5', 'key_ByjU9REUQCQtVos6bKfKMa', 'icu', 'ready', '{"actions":{"count":2,"labels":["wait","treat"]},"horizon":3,"max_trajectories_per_unit":10000,"reward":{"high":1,"low":0},"states":{"count":4,"kind":"discrete"}}', 30, 'up_sKFtexIhahO2sAreD7t5Mo', '2026-11-17T03:08:05.780556+00:00');
INSERT INTO public.datasets VALUES ('ds_cPMztvKz12eAXpPIjTSkZC', 'pop_Rk6ZII9awg8KRfSCbNb4ie', 'key_ByjU9REUQCQtVos6bKfKMa', 'icu', 'retired', '{"actions":{"count":2,"labels":["wait","treat"]},"horizon":3,"max_trajectories_per_unit":1,"reward":{"high":1,"low":0},"states":{"count":4,"kind":"discrete"}}', 20, 'up_zluVK0D7KKyE4p9cTtxweu', '2026-11-17T03:08:05.589136+00:00');
INSERT INTO public.drawn VALUES ('tr_g0HyLfGgiinAEH7QW3cfzo', 0, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a03000000000000000f000000000000000900000000000000fefffffffffffffffdffffffffffffff0a00000000000000ffffffffffffffff0000000000000000070000000000000007000000000000000700000000000000fcffffffffffffff04000000000000000100000000000000130000000000000002000000000000000200000000000000ffffffffffffffff0300000000000000060000000000000001000000000000000700000000000000ffffffffffffffff0800000000000000');
INSERT INTO public.drawn VALUES ('tr_g0HyLfGgiinAEH7QW3cfzo', 1, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200ae490040000000000d5bcfeffffffffffd0bd0200000000008672fdffffffffff36310100000000009ab10100000000006f3402000000000057cc000000000000046f000000000000c12ffeffffffffff2f6efeffffffffff29edfbffffffffffd87e0400000000006fa90200000000005d16090000000000d679000000000000dd62ffffffffffff0116fcffffffffff4008fffffffffffffacc0200000000005218030000000000e2cf0000000000003039020000000000d2f4fcffffffffff');
INSERT INTO public.drawn VALUES ('tr_g0HyLfGgiinAEH7QW3cfzo', 2, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028312c2035292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a00000000000000000300000000000000000000000000000003000000000000000400000000000000');
INSERT INTO public.drawn VALUES ('tr_XBJgk4GNV9xpWQvbFINxHc', 0, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a0b00000000000000020000000000000003000000000000000600000000000000000000000000000004000000000000000a00000000000000feffffffffffffff0100000000000000010000000000000008000000000000000400000000000000fcfffffffffffffffeffffffffffffff09000000000000000100000000000000fefffffffffffffffcfffffffffffffffcffffffffffffff000000000000000004000000000000000800000000000000ffffffffffffffff0800000000000000');
INSERT INTO public.drawn VALUES ('tr_XBJgk4GNV9xpWQvbFINxHc', 1, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a3472040000000000ad32feffffffffffc2f40000000000003a4a010000000000607afefffffffffff47d0000000000001f880100000000009f1204000000000022c3f8ffffffffff87f202000000000012c3feffffffffff3aa5000000000000e2a700000000000027fdfcffffffffffa29e02000000000028490000000000006063010000000000fefffeffffffffff6fedf9ffffffffffbf9bffffffffffff8b86ffffffffffff919dffffffffffff9c6b050000000000d8e9fbffffffffff');
INSERT INTO public.drawn VALUES ('tr_XBJgk4GNV9xpWQvbFINxHc', 2, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028302c2035292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a');
INSERT INTO public.draws VALUES ('tr_g0HyLfGgiinAEH7QW3cfzo', 0, '["gaussian","visits of each state and action, each step",[3,4,2],"everyone","6","18","1"]', true);
INSERT INTO public.draws VALUES ('tr_g0HyLfGgiinAEH7QW3cfzo', 1, '["gaussian","centred rewards of each state and action, each step",[3,4,2],"everyone","3","9","1/65536"]', true);
INSERT INTO public.draws VALUES ('tr_g0HyLfGgiinAEH7QW3cfzo', 2, '["gaussian","transitions from each state and action to each next state or the end, each step",[3,4,2,5],"everyone","6","18","1"]', true);
INSERT INTO public.draws VALUES ('tr_XBJgk4GNV9xpWQvbFINxHc', 0, '["gaussian","visits of each state and action, each step",[3,4,2],"everyone","6","18","1"]', true);
INSERT INTO public.draws VALUES ('tr_XBJgk4GNV9xpWQvbFINxHc', 1, '["gaussian","centred rewards of each state and action, each step",[3,4,2],"everyone","3","9","1/65536"]', true);
INSERT INTO public.draws VALUES ('tr_XBJgk4GNV9xpWQvbFINxHc', 2, '["gaussian","transitions from each state and action to each next state or the end, each step",[3,4,2,5],"everyone","6","18","1"]', true);
INSERT INTO public.grants VALUES ('gr_L3hclhL1Q5pwfyTYvyidYp', 'pop_Rk6ZII9awg8KRfSCbNb4ie', 'ds_cPMztvKz12eAXpPIjTSkZC', 'key_NlRDVPJrVAQYOvPsdydBKd', 8000000000, 500000000, false, '2026-11-17T03:08:05.862709+00:00');
INSERT INTO public.grants VALUES ('gr_wWrVc2zwVHcuF65xlZRrlI', 'pop_Wig8izLwQCRF0yhe37B7S5', 'ds_LzrCpgTc5F6NC6HWhJ0EvW', 'key_NlRDVPJrVAQYOvPsdydBKd', 8000000000, 500000000, false, '2026-11-17T03:08:05.899395+00:00');
INSERT INTO public.grants VALUES ('gr_SIUENBy4cJbtNDezUeMRl1', 'pop_WGygWNAPYMxqbNzGkTEq4u', 'ds_NG5WhElRAvy4bBz8SL4ktn', 'key_NlRDVPJrVAQYOvPsdydBKd', 8000000000, 1000000000, false, '2026-11-17T03:08:05.844591+00:00');
INSERT INTO public.keys VALUES ('key_2s5LsUmoCoS02aL1uv1u3L', 'first administrator', 'admin', '8502814f0f84d8ed3c4b2702ed3023f587358c12c1e4a41f9f95ef592ed84809', '2026-11-17T03:08:04.825124+00:00', NULL);
INSERT INTO public.keys VALUES ('key_ByjU9REUQCQtVos6bKfKMa', 'custodian', 'custodian', 'a33ed349380eceb6de1102a1b1dfdd0a6874fb76497f4a7025e829fc65465a38', '2026-11-17T03:08:05.272676+00:00', NULL);
INSERT INTO public.keys VALUES ('key_NlRDVPJrVAQYOvPsdydBKd', 'analyst', 'analyst', 'f6f54d8df8aae9e52dc8842ce34762aee6df3a078e17460d65d99077aa633809', '2026-11-17T03:08:05.305039+00:00', NULL);
INSERT INTO public.ledger VALUES ('pop_WGygWNAPYMxqbNzGkTEq4u', 1, '2026-11-17T03:08:05.340603+00:00', 'open', 10000000000, NULL, 'key_ByjU9REUQCQtVos6bKfKMa', NULL, '0000000000000000000000000000000000000000000000000000000000000000', '126f253caa9b8fc4f323ac633b946d8fa5106ca8d2e077573efa77b142f84c2b');
INSERT INTO public.ledger VALUES ('pop_Rk6ZII9awg8KRfSCbNb4ie', 1, '2026-11-17T03:08:05.589136+00:00', 'open', 1000000000, NULL, 'key_ByjU9REUQCQtVos6bKfKMa', NULL, '0000000000000000000000000000000000000000000000000000000000000000', '4e0177bc5832307bb00551b7b20d4512288d8379d794c218d137c30abb4fd756');
INSERT INTO public.ledger VALUES ('pop_Wig8izLwQCRF0yhe37B7S5', 1, '2026-11-17T03:08:05.780556+00:00', 'open', 5000000000, NULL, 'key_ByjU9REUQCQtVos6bKfKMa', NULL, '0000000000000000000000000000000000000000000000000000000000000000', 'ef587ff6437f0b6f1fa60319471c05433d86174d97684dc7a44eee123824a88c');
INSERT INTO public.ledger VALUES ('pop_WGygWNAPYMxqbNzGkTEq4u', 2, '2026-11-17T03:08:05.933061+00:00', 'reserve', 500000000, 'tr_g0HyLfGgiinAEH7QW3cfzo', 'key_NlRDVPJrVAQYOvPsdydBKd', NULL, '126f253caa9b8fc4f323ac633b946d8fa5106ca8d2e077573efa77b142f84c2b', '615136d0a5ccb0da950e6bd32f382d9e8644b061dbb879deffb2d245a9ba1798');
INSERT INTO public.ledger VALUES ('pop_WGygWNAPYMxqbNzGkTEq4u', 3, '2026-11-17T03:08:08.487399+00:00', 'charge', 500000000, 'tr_g0HyLfGgiinAEH7QW3cfzo', 'worker', NULL, '615136d0a5ccb0da950e6bd32f382d9e8644b061dbb879deffb2d245a9ba1798', '14f3a3f8afdefb5982859d87d4c039e614488c4581ca1f121984245ebcb2716b');
INSERT INTO public.ledger VALUES ('pop_Rk6ZII9awg8KRfSCbNb4ie', 2, '2026-11-17T03:08:10.630063+00:00', 'reserve', 500000000, 'tr_XBJgk4GNV9xpWQvbFINxHc', 'key_NlRDVPJrVAQYOvPsdydBKd', NULL, '4e0177bc5832307bb00551b7b20d4512288d8379d794c218d137c30abb4fd756', '9e42dec2749168548df133da20cce3ae2fc293647762cf08d72db4ad65527c3d');
INSERT INTO public.ledger VALUES ('pop_Rk6ZII9awg8KRfSCbNb4ie', 3, '2026-11-17T03:08:10.857508+00:00', 'charge', 500000000, 'tr_XBJgk4GNV9xpWQvbFINxHc', 'worker', NULL, '9e42dec2749168548df133da20cce3ae2fc293647762cf08d72db4ad65527c3d', 'a8561e39311523b70e03a999350e030cda633ed1f6f9c696b6a3c4d3127289a0');
INSERT INTO public.ledger VALUES ('pop_WGygWNAPYMxqbNzGkTEq4u', 4, '2026-11-17T03:08:13.011801+00:00', 'adjust', -1000000000, NULL, 'key_ByjU9REUQCQtVos6bKfKMa', 'The ethics board allows nine.', '14f3a3f8afdefb5982859d87d4c039e614488c4581ca1f121984245ebcb2716b', '100d56a131d709e1a4bda0c96199c143479ca0f285ddcd395b50c3f40fea94bd');
INSERT INTO public.ledger VALUES ('pop_Wig8izLwQCRF0yhe37B7S5', 2, '2026-11-17T03:08:13.020478+00:00', 'reserve', 500000000, 'tr_3affsYGIqtyLGbfunOqmlr', 'key_NlRDVPJrVAQYOvPsdydBKd', NULL, 'ef587ff6437f0b6f1fa60319471c05433d86174d97684dc7a44eee123824a88c', 'bf82f90dc7901d735820b80309156be3054c223f881d3ae64b280b63f5093c0a');
INSERT INTO public.ledger VALUES ('pop_Wig8izLwQCRF0yhe37B7S5', 3, '2026-11-17T03:08:13.237864+00:00', 'charge', 500000000, 'tr_3affsYGIqtyLGbfunOqmlr', 'worker', NULL, 'bf82f90dc7901d735820b80309156be3054c223f881d3ae64b280b63f5093c0a', '5caf6cc748bb722c8182594e10e995f5a6c015007141dc4d39c1cd9617858a2c');
INSERT INTO public.ledger VALUES ('pop_WGygWNAPYMxqbNzGkTEq4u', 5, '2026-11-17T03:08:19.086998+00:00', 'reserve', 500000000, 'tr_6XI79gVxhHSV2JVEycIbUk', 'key_NlRDVPJrVAQYOvPsdydBKd', NULL, '100d56a131d709e1a4bda0c96199c143479ca0f285ddcd395b50c3f40fea94bd', '48ea99874e6d2b829e6a34d67b362c86c646f07338a8a884f5a8d6944861a959');
INSERT INTO public.ledger VALUES ('pop_WGygWNAPYMxqbNzGkTEq4u', 6, '2026-11-17T03:08:19.118129+00:00', 'give_back', 500000000, 'tr_6XI79gVxhHSV2JVEycIbUk', 'key_NlRDVPJrVAQYOvPsdydBKd', NULL, '48ea99874e6d2b829e6a34d67b362c86c646f07338a8a884f5a8d6944861a959', '865006100d7c80b0bd2de9f46fe5e11802ff11c660cf045a6ef763aa9533a6a3');
INSERT INTO public.ledger VALUES ('pop_WGygWNAPYMxqbNzGkTEq4u', 7, '2026-11-17T03:08:19.138888+00:00', 'reserve', 500000000, 'tr_QvCGRt3OvYnsnHOl9VlOqt', 'key_NlRDVPJrVAQYOvPsdydBKd', NULL, '865006100d7c80b0bd2de9f46fe5e11802ff11c660cf045a6ef763aa9533a6a3', '6667c36b25d658471b78427ab0913cc02a72da795b72a6a9626d2103f35f1615');
INSERT INTO public.populations VALUES ('pop_Rk6ZII9awg8KRfSCbNb4ie', 'icu', 'key_ByjU9REUQCQtVos6bKfKMa', 1000000000, 0, 500000000, 3, 'a8561e39311523b70e03a999350e030cda633ed1f6f9c696b6a3c4d3127289a0', '2026-11-17T03:08:05.589136+00:00');
INSERT INTO public.populations VALUES ('pop_Wig8izLwQCRF0yhe37B7S5', 'icu', 'key_ByjU9REUQCQtVos6bKfKMa', 5000000000, 0, 500000000, 3, '5caf6cc748bb722c8182594e10e995f5a6c015007141dc4d39c1cd9617858a2c', '2026-11-17T03:08:05.780556+00:00');
INSERT INTO public.populations VALUES ('pop_WGygWNAPYMxqbNzGkTEq4u', 'icu', 'key_ByjU9REUQCQtVos6bKfKMa', 9000000000, 500000000, 500000000, 7, '6667c36b25d658471b78427ab0913cc02a72da795b72a6a9626d2103f35f1615', '2026-11-17T03:08:05.340603+00:00');
INSERT INTO public.releases VALUES ('pol_g4ROvu6orHPn5SWwLwZXTw', 'tr_g0HyLfGgiinAEH7QW3cfzo', 'ds_NG5WhElRAvy4bBz8SL4ktn', 'key_NlRDVPJrVAQYOvPsdydBKd', 'dp-apvi', false, '{"actions":{"count":2,"labels":["wait","treat"]},"algorithm":"dp-apvi","decisions":[[1,0,1,1],[0,0,0,0],[0,1,1,1]],"horizon":3,"id":"pol_g4ROvu6orHPn5SWwLwZXTw","pessimistic_score":[[0,0,0,0],[0,0,0,0],[0,0,0,0]],"source":[["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"]],"states":{"count":4,"kind":"discrete"},"value_lower_bound":null}', '{"payload": "eyJjb21wb3NpdGlvbiI6IlRoZSDPgSBvZiBHYXVzc2lhbiByZWxlYXNlcyB0aGF0IHJlYWQgdGhlIHNhbWUgdW5pdCBhZGQgdXA7IHRoZSDOtSBvZiBMYXBsYWNlIHJlbGVhc2VzIGFkZCB1cCBhbmQgY291bnQgYXMgzrXCsi8yOyBhIHVuaXQgc2l0cyBpbiBvbmUgaGFsZiBvZiB0aGUgZGF0YSBvbmx5LCBzbyB0aGF0IG9mIHR3byBoYWx2ZXMgdGhlIGRlYXJlciBvbmUgY291bnRzLiIsImRlcml2ZWRfZnJvbSI6bnVsbCwibGVkZ2VyIjp7Imhhc2giOiIxNGYzYTNmOGFmZGVmYjU5ODI4NTlkODdkNGMwMzllNjE0NDg4YzQ1ODFjYTFmMTIxOTg0MjQ1ZWJjYjI3MTZiIiwicG9wdWxhdGlvbiI6InBvcF9XR3lnV05BUFlNeHFiTnpHa1RFcTR1Iiwic2VxdWVuY2UiOjN9LCJtZWNoYW5pc21zIjpbeyJtZWNoYW5pc20iOiJnYXVzc2lhbiIsInBhcnQiOiJldmVyeW9uZSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmVzb2x1dGlvbiI6IjEvMSIsInJobyI6IjEvNiIsInNjYWxlIjp7ImtpbmQiOiJ2YXJpYW5jZSIsInZhbHVlIjoiMTgvMSJ9LCJzZW5zaXRpdml0eSI6eyJub3JtIjoic3F1YXJlZCBsMiIsInZhbHVlIjoiNi8xIn0sInNoYXBlIjpbMyw0LDJdLCJzdGF0aXN0aWMiOiJ2aXNpdHMgb2YgZWFjaCBzdGF0ZSBhbmQgYWN0aW9uLCBlYWNoIHN0ZXAifSx7Im1lY2hhbmlzbSI6ImdhdXNzaWFuIiwicGFydCI6ImV2ZXJ5b25lIiwicHVyZV9lcHNpbG9uIjpudWxsLCJyZXNvbHV0aW9uIjoiMS8xIiwicmhvIjoiMS82Iiwic2NhbGUiOnsia2luZCI6InZhcmlhbmNlIiwidmFsdWUiOiIxOC8xIn0sInNlbnNpdGl2aXR5Ijp7Im5vcm0iOiJzcXVhcmVkIGwyIiwidmFsdWUiOiI2LzEifSwic2hhcGUiOlszLDQsMiw1XSwic3RhdGlzdGljIjoidHJhbnNpdGlvbnMgZnJvbSBlYWNoIHN0YXRlIGFuZCBhY3Rpb24gdG8gZWFjaCBuZXh0IHN0YXRlIG9yIHRoZSBlbmQsIGVhY2ggc3RlcCJ9LHsibWVjaGFuaXNtIjoiZ2F1c3NpYW4iLCJwYXJ0IjoiZXZlcnlvbmUiLCJwdXJlX2Vwc2lsb24iOm51bGwsInJlc29sdXRpb24iOiIxLzY1NTM2IiwicmhvIjoiMS82Iiwic2NhbGUiOnsia2luZCI6InZhcmlhbmNlIiwidmFsdWUiOiI5LzEifSwic2Vuc2l0aXZpdHkiOnsibm9ybSI6InNxdWFyZWQgbDIiLCJ2YWx1ZSI6IjMvMSJ9LCJzaGFwZSI6WzMsNCwyXSwic3RhdGlzdGljIjoiY2VudHJlZCByZXdhcmRzIG9mIGVhY2ggc3RhdGUgYW5kIGFjdGlvbiwgZWFjaCBzdGVwIn1dLCJub3RfY292ZXJlZCI6WyJIb3cgbG9uZyB0aGUgd29yayB3YWl0ZWQgaW4gdGhlIHF1ZXVlLCBhbmQgd2hldGhlciBpdHMgcmVzdWx0IHdhcyBwdWJsaXNoZWQgYXQgaXRzIHVzdWFsIHRpbWUgb3IgYXQgYSBsYXRlciBvbmUsIHJlbWFpbiB2aXNpYmxlLiIsIlRoZSBzY2hlbWEsIHRoZSBib3VuZHMgaW4gaXQgYW5kIHRoZSBudW1iZXIgb2YgdW5pdHMgYXJlIHB1YmxpYyBhbmQgbm90IHByb3RlY3RlZC4iLCJXaGF0IGlzIHRydWUgb2YgcGF0aWVudHMgYXMgYSBncm91cCBtYXkgYmUgbGVhcm5lZCBmcm9tIHRoZSByZXN1bHQsIGFsc28gYWJvdXQgYSBwYXRpZW50IHdobyBpcyBub3QgaW4gdGhlIGRhdGEuIiwiT3RoZXIgcmVsZWFzZXMgYWJvdXQgdGhlIHNhbWUgcG9wdWxhdGlvbiBjb3N0IGEgz4Egb2YgdGhlaXIgb3duLCBhbmQgdGhlc2UgYWRkIHVwOyBpdHMgbGVkZ2VyIGhhcyB0aGUgc3VtLiIsIkEgcGF0aWVudCB3aG8gYmVsb25ncyB0byBzZXZlcmFsIHBvcHVsYXRpb25zIHBheXMgaW4gZWFjaCBvZiB0aGVtLCBhbmQgdGhlc2UgY29zdHMgYWRkIHVwLiIsIlRoZSBjdXN0b2RpYW4sIGFuZCB3aG9ldmVyIGFkbWluaXN0ZXJzIHRoZSBjb21wdXRlcnMsIGNhbiByZWFkIHRoZSByYXcgZGF0YS4iXSwicG9saWN5Ijp7ImlkIjoicG9sX2c0Uk92dTZvckhQbjVTV3dMd1pYVHciLCJzaGEyNTYiOiJlNzU1Y2I2NDhmNDcwYzMzNTUwMDVjMjNjYTMxYjQ2MDBkMTUxODk5MzBlYWYwNDIwOGE4YjA2NzQ2MWU4MzA0In0sInByaXZhY3kiOnsiY2hhcmdlZF9yaG8iOiIwLjUiLCJlcHNpbG9uIjpbeyJkZWx0YSI6IjFlLTUiLCJlcHNpbG9uIjoiNC43MjkifSx7ImRlbHRhIjoiMWUtNiIsImVwc2lsb24iOiI1LjIyMiJ9LHsiZGVsdGEiOiIxZS05IiwiZXBzaWxvbiI6IjYuNDc1In1dLCJmdXJ0aGVyX3JobyI6IjAuNSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmhvIjoiMS8yIn0sInByb21pc2UiOnsiZ3VhcmFudGVlIjoiVGhlIGNvbnRlbnQgb2YgdGhpcyByZWxlYXNlIGlzIM-BLXpDRFAgZm9yIG5laWdoYm91cnMsIHdpdGggdGhlIHRvdGFsIM-BIGJlbG93LiBUaGUgZ3VhcmFudGVlIGlzIGNvbXB1dGF0aW9uYWw6IHRoZSBub2lzZSBjb21lcyBmcm9tIEFFUy0yNTYgaW4gY291bnRlciBtb2RlIHVuZGVyIGEga2V5IG9mIHRoZSBvcGVyYXRpbmcgc3lzdGVtLCBhbmQgdGhlIHByb21pc2UgaG9sZHMgYWdhaW5zdCB3aG9ldmVyIGNhbm5vdCB0ZWxsIHRoYXQgZnJvbSBjaGFuY2UuIiwibmVpZ2hib3VycyI6IlR3byBzaXR1YXRpb25zIGFyZSBuZWlnaGJvdXJzIGlmIHRoZSByZWNvcmRzIG9mIG9uZSB1bml0IGFyZSByZXBsYWNlZCBieSBhbnkgb3RoZXJzIGluIGV2ZXJ5IGRhdGFzZXQgb2YgdGhlIHBvcHVsYXRpb24sIHdoaWxlIHRoZSB1bml0cyB0aGF0IGJlbG9uZyB0byBpdCBzdGF5IHRoZSBzYW1lLiIsInVuaXQiOiJPbmUgdW5pdCBpcyBvbmUgcGF0aWVudCwgd2l0aCBldmVyeXRoaW5nIHJlY29yZGVkIGFib3V0IHRoYXQgcGF0aWVudCBpbiB0aGUgZGF0YXNldC4ifSwicmVxdWVzdCI6eyJhbGdvcml0aG0iOiJkcC1hcHZpIiwiY2hvc2VuIjpudWxsLCJoYWxmIjpudWxsLCJwYXJhbWV0ZXJzIjp7ImMiOjIsImMxIjowLjUsImMyIjowLCJjYWxpYnJhdGlvbiI6InRpZ2h0IiwiZGVsdGEiOjAuMSwiZHluYW1pY3MiOiJwZXJfc3RlcCIsInBlc3NpbWlzbSI6ImJlcm5zdGVpbiIsInJld2FyZCI6bnVsbCwic2hhcmVzIjpbMSwxLDFdfSwicHJpdmFjeSI6eyJyaG8iOiIwLjUifSwic2NoZW1hIjp7ImFjdGlvbnMiOnsiY291bnQiOjIsImxhYmVscyI6WyJ3YWl0IiwidHJlYXQiXX0sImhvcml6b24iOjMsIm1heF90cmFqZWN0b3JpZXNfcGVyX3VuaXQiOjEsInJld2FyZCI6eyJoaWdoIjoxLCJsb3ciOjB9LCJzdGF0ZXMiOnsiY291bnQiOjQsImtpbmQiOiJkaXNjcmV0ZSJ9fSwidW5pdHMiOjQwfSwic29mdHdhcmUiOnsibmFtZSI6ImRpc2NyZXRpb24iLCJ2ZXJzaW9uIjoiMC4xLjAifSwidmVyc2lvbiI6MX0", "protected": "eyJhbGciOiJFZERTQSIsImtpZCI6Ijk1RHJQN3J6VTJpVGR4clE3TWlNSlpaOExUc2lIVi1rTE1HbHRmWE9ibDQiLCJ0eXAiOiJkaXNjcmV0aW9uLWNlcnRpZmljYXRlK2p3cyJ9", "signature": "bcPqKO5DixLhALrkHqj3EzOzX_Z3N7nFf9Ud9_moFcooxR3dfwJhP3elaqOnOny_WX60PLY7rxb_H4xtRucIDA"}', '2026-11-17T03:08:10.526046+00:00');
INSERT INTO public.releases VALUES ('pol_wezKtnxDxcEmtN2equoRo8', 'tr_g0HyLfGgiinAEH7QW3cfzo', 'ds_NG5WhElRAvy4bBz8SL4ktn', 'key_NlRDVPJrVAQYOvPsdydBKd', 'dp-apvi', true, '{"actions":{"count":2,"labels":["wait","treat"]},"algorithm":"dp-apvi","decisions":[[1,0,1,1],[0,0,0,0],[0,1,1,1]],"horizon":3,"id":"pol_wezKtnxDxcEmtN2equoRo8","pessimistic_score":[[0,0,0,0],[0,0,0,0],[0,0,0,0]],"source":[["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"]],"states":{"count":4,"kind":"discrete"},"value_lower_bound":null}', '{"payload": "eyJjb21wb3NpdGlvbiI6IlRoZSDPgSBvZiBHYXVzc2lhbiByZWxlYXNlcyB0aGF0IHJlYWQgdGhlIHNhbWUgdW5pdCBhZGQgdXA7IHRoZSDOtSBvZiBMYXBsYWNlIHJlbGVhc2VzIGFkZCB1cCBhbmQgY291bnQgYXMgzrXCsi8yOyBhIHVuaXQgc2l0cyBpbiBvbmUgaGFsZiBvZiB0aGUgZGF0YSBvbmx5LCBzbyB0aGF0IG9mIHR3byBoYWx2ZXMgdGhlIGRlYXJlciBvbmUgY291bnRzLiIsImRlcml2ZWRfZnJvbSI6eyJwYXJhbWV0ZXJzIjp7ImMiOjIsImMxIjowLjUsImMyIjowLCJjYWxpYnJhdGlvbiI6InRpZ2h0IiwiZGVsdGEiOjAuMSwiZHluYW1pY3MiOiJwZXJfc3RlcCIsInBlc3NpbWlzbSI6ImJlcm5zdGVpbiIsInJld2FyZCI6bnVsbCwic2hhcmVzIjpbMSwxLDFdfSwidHJhaW5pbmciOiJ0cl9nMEh5TGZHZ2lpbkFFSDdRVzNjZnpvIn0sImxlZGdlciI6eyJoYXNoIjoiMTRmM2EzZjhhZmRlZmI1OTgyODU5ZDg3ZDRjMDM5ZTYxNDQ4OGM0NTgxY2ExZjEyMTk4NDI0NWViY2IyNzE2YiIsInBvcHVsYXRpb24iOiJwb3BfV0d5Z1dOQVBZTXhxYk56R2tURXE0dSIsInNlcXVlbmNlIjozfSwibWVjaGFuaXNtcyI6W3sibWVjaGFuaXNtIjoiZ2F1c3NpYW4iLCJwYXJ0IjoiZXZlcnlvbmUiLCJwdXJlX2Vwc2lsb24iOm51bGwsInJlc29sdXRpb24iOiIxLzEiLCJyaG8iOiIxLzYiLCJzY2FsZSI6eyJraW5kIjoidmFyaWFuY2UiLCJ2YWx1ZSI6IjE4LzEifSwic2Vuc2l0aXZpdHkiOnsibm9ybSI6InNxdWFyZWQgbDIiLCJ2YWx1ZSI6IjYvMSJ9LCJzaGFwZSI6WzMsNCwyXSwic3RhdGlzdGljIjoidmlzaXRzIG9mIGVhY2ggc3RhdGUgYW5kIGFjdGlvbiwgZWFjaCBzdGVwIn0seyJtZWNoYW5pc20iOiJnYXVzc2lhbiIsInBhcnQiOiJldmVyeW9uZSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmVzb2x1dGlvbiI6IjEvMSIsInJobyI6IjEvNiIsInNjYWxlIjp7ImtpbmQiOiJ2YXJpYW5jZSIsInZhbHVlIjoiMTgvMSJ9LCJzZW5zaXRpdml0eSI6eyJub3JtIjoic3F1YXJlZCBsMiIsInZhbHVlIjoiNi8xIn0sInNoYXBlIjpbMyw0LDIsNV0sInN0YXRpc3RpYyI6InRyYW5zaXRpb25zIGZyb20gZWFjaCBzdGF0ZSBhbmQgYWN0aW9uIHRvIGVhY2ggbmV4dCBzdGF0ZSBvciB0aGUgZW5kLCBlYWNoIHN0ZXAifSx7Im1lY2hhbmlzbSI6ImdhdXNzaWFuIiwicGFydCI6ImV2ZXJ5b25lIiwicHVyZV9lcHNpbG9uIjpudWxsLCJyZXNvbHV0aW9uIjoiMS82NTUzNiIsInJobyI6IjEvNiIsInNjYWxlIjp7ImtpbmQiOiJ2YXJpYW5jZSIsInZhbHVlIjoiOS8xIn0sInNlbnNpdGl2aXR5Ijp7Im5vcm0iOiJzcXVhcmVkIGwyIiwidmFsdWUiOiIzLzEifSwic2hhcGUiOlszLDQsMl0sInN0YXRpc3RpYyI6ImNlbnRyZWQgcmV3YXJkcyBvZiBlYWNoIHN0YXRlIGFuZCBhY3Rpb24sIGVhY2ggc3RlcCJ9XSwibm90X2NvdmVyZWQiOlsiSG93IGxvbmcgdGhlIHdvcmsgd2FpdGVkIGluIHRoZSBxdWV1ZSwgYW5kIHdoZXRoZXIgaXRzIHJlc3VsdCB3YXMgcHVibGlzaGVkIGF0IGl0cyB1c3VhbCB0aW1lIG9yIGF0IGEgbGF0ZXIgb25lLCByZW1haW4gdmlzaWJsZS4iLCJUaGUgc2NoZW1hLCB0aGUgYm91bmRzIGluIGl0IGFuZCB0aGUgbnVtYmVyIG9mIHVuaXRzIGFyZSBwdWJsaWMgYW5kIG5vdCBwcm90ZWN0ZWQuIiwiV2hhdCBpcyB0cnVlIG9mIHBhdGllbnRzIGFzIGEgZ3JvdXAgbWF5IGJlIGxlYXJuZWQgZnJvbSB0aGUgcmVzdWx0LCBhbHNvIGFib3V0IGEgcGF0aWVudCB3aG8gaXMgbm90IGluIHRoZSBkYXRhLiIsIk90aGVyIHJlbGVhc2VzIGFib3V0IHRoZSBzYW1lIHBvcHVsYXRpb24gY29zdCBhIM-BIG9mIHRoZWlyIG93biwgYW5kIHRoZXNlIGFkZCB1cDsgaXRzIGxlZGdlciBoYXMgdGhlIHN1bS4iLCJBIHBhdGllbnQgd2hvIGJlbG9uZ3MgdG8gc2V2ZXJhbCBwb3B1bGF0aW9ucyBwYXlzIGluIGVhY2ggb2YgdGhlbSwgYW5kIHRoZXNlIGNvc3RzIGFkZCB1cC4iLCJUaGUgY3VzdG9kaWFuLCBhbmQgd2hvZXZlciBhZG1pbmlzdGVycyB0aGUgY29tcHV0ZXJzLCBjYW4gcmVhZCB0aGUgcmF3IGRhdGEuIl0sInBvbGljeSI6eyJpZCI6InBvbF93ZXpLdG54RHhjRW10TjJlcXVvUm84Iiwic2hhMjU2IjoiNmI1Mzk3OTNiMWEzZDZhMzhkNmJkYjFlM2I0OWNiNGI0YzM5MWU2YTA5NmE5NTFhNmM3YThkMWM4NGQ2ODdkOSJ9LCJwcml2YWN5Ijp7ImNoYXJnZWRfcmhvIjoiMC41IiwiZXBzaWxvbiI6W3siZGVsdGEiOiIxZS01IiwiZXBzaWxvbiI6IjQuNzI5In0seyJkZWx0YSI6IjFlLTYiLCJlcHNpbG9uIjoiNS4yMjIifSx7ImRlbHRhIjoiMWUtOSIsImVwc2lsb24iOiI2LjQ3NSJ9XSwiZnVydGhlcl9yaG8iOiIwIiwicHVyZV9lcHNpbG9uIjpudWxsLCJyaG8iOiIxLzIifSwicHJvbWlzZSI6eyJndWFyYW50ZWUiOiJUaGUgY29udGVudCBvZiB0aGlzIHJlbGVhc2UgaXMgz4EtekNEUCBmb3IgbmVpZ2hib3Vycywgd2l0aCB0aGUgdG90YWwgz4EgYmVsb3cuIFRoZSBndWFyYW50ZWUgaXMgY29tcHV0YXRpb25hbDogdGhlIG5vaXNlIGNvbWVzIGZyb20gQUVTLTI1NiBpbiBjb3VudGVyIG1vZGUgdW5kZXIgYSBrZXkgb2YgdGhlIG9wZXJhdGluZyBzeXN0ZW0sIGFuZCB0aGUgcHJvbWlzZSBob2xkcyBhZ2FpbnN0IHdob2V2ZXIgY2Fubm90IHRlbGwgdGhhdCBmcm9tIGNoYW5jZS4iLCJuZWlnaGJvdXJzIjoiVHdvIHNpdHVhdGlvbnMgYXJlIG5laWdoYm91cnMgaWYgdGhlIHJlY29yZHMgb2Ygb25lIHVuaXQgYXJlIHJlcGxhY2VkIGJ5IGFueSBvdGhlcnMgaW4gZXZlcnkgZGF0YXNldCBvZiB0aGUgcG9wdWxhdGlvbiwgd2hpbGUgdGhlIHVuaXRzIHRoYXQgYmVsb25nIHRvIGl0IHN0YXkgdGhlIHNhbWUuIiwidW5pdCI6Ik9uZSB1bml0IGlzIG9uZSBwYXRpZW50LCB3aXRoIGV2ZXJ5dGhpbmcgcmVjb3JkZWQgYWJvdXQgdGhhdCBwYXRpZW50IGluIHRoZSBkYXRhc2V0LiJ9LCJyZXF1ZXN0Ijp7ImFsZ29yaXRobSI6ImRwLWFwdmkiLCJjaG9zZW4iOm51bGwsImhhbGYiOm51bGwsInBhcmFtZXRlcnMiOnsiYyI6MiwiYzEiOjEuNDE0MjEzNTYyMzczMDk1MSwiYzIiOjE2LCJjYWxpYnJhdGlvbiI6InRpZ2h0IiwiZGVsdGEiOjAuMSwiZHluYW1pY3MiOiJwZXJfc3RlcCIsInBlc3NpbWlzbSI6ImJlcm5zdGVpbiIsInJld2FyZCI6bnVsbCwic2hhcmVzIjpbMSwxLDFdfSwicHJpdmFjeSI6eyJyaG8iOiIwLjUifSwic2NoZW1hIjp7ImFjdGlvbnMiOnsiY291bnQiOjIsImxhYmVscyI6WyJ3YWl0IiwidHJlYXQiXX0sImhvcml6b24iOjMsIm1heF90cmFqZWN0b3JpZXNfcGVyX3VuaXQiOjEsInJld2FyZCI6eyJoaWdoIjoxLCJsb3ciOjB9LCJzdGF0ZXMiOnsiY291bnQiOjQsImtpbmQiOiJkaXNjcmV0ZSJ9fSwidW5pdHMiOjQwfSwic29mdHdhcmUiOnsibmFtZSI6ImRpc2NyZXRpb24iLCJ2ZXJzaW9uIjoiMC4xLjAifSwidmVyc2lvbiI6MX0", "protected": "eyJhbGciOiJFZERTQSIsImtpZCI6Ijk1RHJQN3J6VTJpVGR4clE3TWlNSlpaOExUc2lIVi1rTE1HbHRmWE9ibDQiLCJ0eXAiOiJkaXNjcmV0aW9uLWNlcnRpZmljYXRlK2p3cyJ9", "signature": "_YKP-dlfXjaYxrYslQptfOGZJS3dUJUS526XusskFbdH4yN5K7kZVffcTCo_uiLL8v-II_leOyK0-fDExxZnCQ"}', '2026-11-17T03:08:10.582076+00:00');
INSERT INTO public.releases VALUES ('pol_ApXP106T17XkoEkCXLPHkP', 'tr_XBJgk4GNV9xpWQvbFINxHc', 'ds_cPMztvKz12eAXpPIjTSkZC', 'key_NlRDVPJrVAQYOvPsdydBKd', 'dp-apvi', false, '{"actions":{"count":2,"labels":["wait","treat"]},"algorithm":"dp-apvi","decisions":[[0,1,1,0],[0,0,1,0],[0,1,1,1]],"horizon":3,"id":"pol_ApXP106T17XkoEkCXLPHkP","pessimistic_score":[[0,0,0,0],[0,0,0,0],[0,0,0,0]],"source":[["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"]],"states":{"count":4,"kind":"discrete"},"value_lower_bound":null}', '{"payload": "eyJjb21wb3NpdGlvbiI6IlRoZSDPgSBvZiBHYXVzc2lhbiByZWxlYXNlcyB0aGF0IHJlYWQgdGhlIHNhbWUgdW5pdCBhZGQgdXA7IHRoZSDOtSBvZiBMYXBsYWNlIHJlbGVhc2VzIGFkZCB1cCBhbmQgY291bnQgYXMgzrXCsi8yOyBhIHVuaXQgc2l0cyBpbiBvbmUgaGFsZiBvZiB0aGUgZGF0YSBvbmx5LCBzbyB0aGF0IG9mIHR3byBoYWx2ZXMgdGhlIGRlYXJlciBvbmUgY291bnRzLiIsImRlcml2ZWRfZnJvbSI6bnVsbCwibGVkZ2VyIjp7Imhhc2giOiJhODU2MWUzOTMxMTUyM2I3MGUwM2E5OTkzNTBlMDMwY2RhNjMzZWQxZjZmOWM2OTZiNmEzYzRkMzEyNzI4OWEwIiwicG9wdWxhdGlvbiI6InBvcF9SazZaSUk5YXdnOEtSZlNDYk5iNGllIiwic2VxdWVuY2UiOjN9LCJtZWNoYW5pc21zIjpbeyJtZWNoYW5pc20iOiJnYXVzc2lhbiIsInBhcnQiOiJldmVyeW9uZSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmVzb2x1dGlvbiI6IjEvMSIsInJobyI6IjEvNiIsInNjYWxlIjp7ImtpbmQiOiJ2YXJpYW5jZSIsInZhbHVlIjoiMTgvMSJ9LCJzZW5zaXRpdml0eSI6eyJub3JtIjoic3F1YXJlZCBsMiIsInZhbHVlIjoiNi8xIn0sInNoYXBlIjpbMyw0LDJdLCJzdGF0aXN0aWMiOiJ2aXNpdHMgb2YgZWFjaCBzdGF0ZSBhbmQgYWN0aW9uLCBlYWNoIHN0ZXAifSx7Im1lY2hhbmlzbSI6ImdhdXNzaWFuIiwicGFydCI6ImV2ZXJ5b25lIiwicHVyZV9lcHNpbG9uIjpudWxsLCJyZXNvbHV0aW9uIjoiMS8xIiwicmhvIjoiMS82Iiwic2NhbGUiOnsia2luZCI6InZhcmlhbmNlIiwidmFsdWUiOiIxOC8xIn0sInNlbnNpdGl2aXR5Ijp7Im5vcm0iOiJzcXVhcmVkIGwyIiwidmFsdWUiOiI2LzEifSwic2hhcGUiOlszLDQsMiw1XSwic3RhdGlzdGljIjoidHJhbnNpdGlvbnMgZnJvbSBlYWNoIHN0YXRlIGFuZCBhY3Rpb24gdG8gZWFjaCBuZXh0IHN0YXRlIG9yIHRoZSBlbmQsIGVhY2ggc3RlcCJ9LHsibWVjaGFuaXNtIjoiZ2F1c3NpYW4iLCJwYXJ0IjoiZXZlcnlvbmUiLCJwdXJlX2Vwc2lsb24iOm51bGwsInJlc29sdXRpb24iOiIxLzY1NTM2IiwicmhvIjoiMS82Iiwic2NhbGUiOnsia2luZCI6InZhcmlhbmNlIiwidmFsdWUiOiI5LzEifSwic2Vuc2l0aXZpdHkiOnsibm9ybSI6InNxdWFyZWQgbDIiLCJ2YWx1ZSI6IjMvMSJ9LCJzaGFwZSI6WzMsNCwyXSwic3RhdGlzdGljIjoiY2VudHJlZCByZXdhcmRzIG9mIGVhY2ggc3RhdGUgYW5kIGFjdGlvbiwgZWFjaCBzdGVwIn1dLCJub3RfY292ZXJlZCI6WyJIb3cgbG9uZyB0aGUgd29yayB3YWl0ZWQgaW4gdGhlIHF1ZXVlLCBhbmQgd2hldGhlciBpdHMgcmVzdWx0IHdhcyBwdWJsaXNoZWQgYXQgaXRzIHVzdWFsIHRpbWUgb3IgYXQgYSBsYXRlciBvbmUsIHJlbWFpbiB2aXNpYmxlLiIsIlRoZSBzY2hlbWEsIHRoZSBib3VuZHMgaW4gaXQgYW5kIHRoZSBudW1iZXIgb2YgdW5pdHMgYXJlIHB1YmxpYyBhbmQgbm90IHByb3RlY3RlZC4iLCJXaGF0IGlzIHRydWUgb2YgcGF0aWVudHMgYXMgYSBncm91cCBtYXkgYmUgbGVhcm5lZCBmcm9tIHRoZSByZXN1bHQsIGFsc28gYWJvdXQgYSBwYXRpZW50IHdobyBpcyBub3QgaW4gdGhlIGRhdGEuIiwiT3RoZXIgcmVsZWFzZXMgYWJvdXQgdGhlIHNhbWUgcG9wdWxhdGlvbiBjb3N0IGEgz4Egb2YgdGhlaXIgb3duLCBhbmQgdGhlc2UgYWRkIHVwOyBpdHMgbGVkZ2VyIGhhcyB0aGUgc3VtLiIsIkEgcGF0aWVudCB3aG8gYmVsb25ncyB0byBzZXZlcmFsIHBvcHVsYXRpb25zIHBheXMgaW4gZWFjaCBvZiB0aGVtLCBhbmQgdGhlc2UgY29zdHMgYWRkIHVwLiIsIlRoZSBjdXN0b2RpYW4sIGFuZCB3aG9ldmVyIGFkbWluaXN0ZXJzIHRoZSBjb21wdXRlcnMsIGNhbiByZWFkIHRoZSByYXcgZGF0YS4iXSwicG9saWN5Ijp7ImlkIjoicG9sX0FwWFAxMDZUMTdYa29Fa0NYTFBIa1AiLCJzaGEyNTYiOiIyMGE5N2Q5YjA4M2RlMDkwOTYyNTg2OTFmMGYxOWE4YjFlNzU4NjEyNTVlOWZkYjliM2IxOTIwNjEwODQ0ZDc3In0sInByaXZhY3kiOnsiY2hhcmdlZF9yaG8iOiIwLjUiLCJlcHNpbG9uIjpbeyJkZWx0YSI6IjFlLTUiLCJlcHNpbG9uIjoiNC43MjkifSx7ImRlbHRhIjoiMWUtNiIsImVwc2lsb24iOiI1LjIyMiJ9LHsiZGVsdGEiOiIxZS05IiwiZXBzaWxvbiI6IjYuNDc1In1dLCJmdXJ0aGVyX3JobyI6IjAuNSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmhvIjoiMS8yIn0sInByb21pc2UiOnsiZ3VhcmFudGVlIjoiVGhlIGNvbnRlbnQgb2YgdGhpcyByZWxlYXNlIGlzIM-BLXpDRFAgZm9yIG5laWdoYm91cnMsIHdpdGggdGhlIHRvdGFsIM-BIGJlbG93LiBUaGUgZ3VhcmFudGVlIGlzIGNvbXB1dGF0aW9uYWw6IHRoZSBub2lzZSBjb21lcyBmcm9tIEFFUy0yNTYgaW4gY291bnRlciBtb2RlIHVuZGVyIGEga2V5IG9mIHRoZSBvcGVyYXRpbmcgc3lzdGVtLCBhbmQgdGhlIHByb21pc2UgaG9sZHMgYWdhaW5zdCB3aG9ldmVyIGNhbm5vdCB0ZWxsIHRoYXQgZnJvbSBjaGFuY2UuIiwibmVpZ2hib3VycyI6IlR3byBzaXR1YXRpb25zIGFyZSBuZWlnaGJvdXJzIGlmIHRoZSByZWNvcmRzIG9mIG9uZSB1bml0IGFyZSByZXBsYWNlZCBieSBhbnkgb3RoZXJzIGluIGV2ZXJ5IGRhdGFzZXQgb2YgdGhlIHBvcHVsYXRpb24sIHdoaWxlIHRoZSB1bml0cyB0aGF0IGJlbG9uZyB0byBpdCBzdGF5IHRoZSBzYW1lLiIsInVuaXQiOiJPbmUgdW5pdCBpcyBvbmUgcGF0aWVudCwgd2l0aCBldmVyeXRoaW5nIHJlY29yZGVkIGFib3V0IHRoYXQgcGF0aWVudCBpbiB0aGUgZGF0YXNldC4ifSwicmVxdWVzdCI6eyJhbGdvcml0aG0iOiJkcC1hcHZpIiwiY2hvc2VuIjpudWxsLCJoYWxmIjpudWxsLCJwYXJhbWV0ZXJzIjp7ImMiOjIsImMxIjowLjUsImMyIjowLCJjYWxpYnJhdGlvbiI6InRpZ2h0IiwiZGVsdGEiOjAuMSwiZHluYW1pY3MiOiJwZXJfc3RlcCIsInBlc3NpbWlzbSI6ImJlcm5zdGVpbiIsInJld2FyZCI6bnVsbCwic2hhcmVzIjpbMSwxLDFdfSwicHJpdmFjeSI6eyJyaG8iOiIwLjUifSwic2NoZW1hIjp7ImFjdGlvbnMiOnsiY291bnQiOjIsImxhYmVscyI6WyJ3YWl0IiwidHJlYXQiXX0sImhvcml6b24iOjMsIm1heF90cmFqZWN0b3JpZXNfcGVyX3VuaXQiOjEsInJld2FyZCI6eyJoaWdoIjoxLCJsb3ciOjB9LCJzdGF0ZXMiOnsiY291bnQiOjQsImtpbmQiOiJkaXNjcmV0ZSJ9fSwidW5pdHMiOjIwfSwic29mdHdhcmUiOnsibmFtZSI6ImRpc2NyZXRpb24iLCJ2ZXJzaW9uIjoiMC4xLjAifSwidmVyc2lvbiI6MX0", "protected": "eyJhbGciOiJFZERTQSIsImtpZCI6Ijk1RHJQN3J6VTJpVGR4clE3TWlNSlpaOExUc2lIVi1rTE1HbHRmWE9ibDQiLCJ0eXAiOiJkaXNjcmV0aW9uLWNlcnRpZmljYXRlK2p3cyJ9", "signature": "y2pxktqZSbaH45qgaJ0GwZ83rLnHTPMO4kbnN-J_ICa0SLDwC19BBzd9k0u3_LLFMCBK8HTXm1zAwRAUK8AzDg"}', '2026-11-17T03:08:12.941367+00:00');
INSERT INTO public.signing_keys VALUES ('95DrP7rzU2iTdxrQ7MiMJZZ8LTsiHV-kLMGltfXObl4', '{"kty": "OKP", "crv": "Ed25519", "x": "PeTy5h_13_MbVn22UkIYLrG28tcwurI4NG_dSQIygqQ", "kid": "95DrP7rzU2iTdxrQ7MiMJZZ8LTsiHV-kLMGltfXObl4", "alg": "EdDSA", "use": "sig"}', '2026-11-17T03:08:04.943933+00:00');
INSERT INTO public.trainings VALUES ('tr_XBJgk4GNV9xpWQvbFINxHc', 'ds_cPMztvKz12eAXpPIjTSkZC', 'key_NlRDVPJrVAQYOvPsdydBKd', 'released 1', 'gr_L3hclhL1Q5pwfyTYvyidYp', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'released', NULL, 4, 4, 1, '2026-11-17T03:08:10.857508+00:00', 1, '2026-11-17T03:08:27.823452+00:00', '2026-11-17T03:08:10.630063+00:00');
INSERT INTO public.trainings VALUES ('tr_3affsYGIqtyLGbfunOqmlr', 'ds_LzrCpgTc5F6NC6HWhJ0EvW', 'key_NlRDVPJrVAQYOvPsdydBKd', 'running', 'gr_wWrVc2zwVHcuF65xlZRrlI', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'running', NULL, 4, 0, 0, '2026-11-17T03:08:13.237864+00:00', 1, '2026-11-17T03:08:13.438695+00:00', '2026-11-17T03:08:13.020478+00:00');
INSERT INTO public.trainings VALUES ('tr_6XI79gVxhHSV2JVEycIbUk', 'ds_NG5WhElRAvy4bBz8SL4ktn', 'key_NlRDVPJrVAQYOvPsdydBKd', 'cancelled', 'gr_SIUENBy4cJbtNDezUeMRl1', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'cancelled', NULL, 4, 0, 0, NULL, 1, NULL, '2026-11-17T03:08:19.086998+00:00');
INSERT INTO public.trainings VALUES ('tr_QvCGRt3OvYnsnHOl9VlOqt', 'ds_NG5WhElRAvy4bBz8SL4ktn', 'key_NlRDVPJrVAQYOvPsdydBKd', 'queued', 'gr_SIUENBy4cJbtNDezUeMRl1', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'queued', NULL, 4, 0, 0, NULL, 0, NULL, '2026-11-17T03:08:19.138888+00:00');
INSERT INTO public.trainings VALUES ('tr_g0HyLfGgiinAEH7QW3cfzo', 'ds_NG5WhElRAvy4bBz8SL4ktn', 'key_NlRDVPJrVAQYOvPsdydBKd', 'released 0', 'gr_SIUENBy4cJbtNDezUeMRl1', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'released', NULL, 4, 4, 1, '2026-11-17T03:08:08.487399+00:00', 1, '2026-11-17T03:08:25.376224+00:00', '2026-11-17T03:08:05.933061+00:00');
SELECT pg_catalog.setval('public.audit_sequence_seq', 24, true);
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
