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
INSERT INTO public.alembic_version VALUES ('0001');
INSERT INTO public.audit VALUES (1, '2026-11-17T03:07:34.844602+00:00', 'key_YJaqFVhJswmYqjmk0mDMu8', 'key.create', 'key_YJaqFVhJswmYqjmk0mDMu8');
INSERT INTO public.audit VALUES (2, '2026-11-17T03:07:35.598559+00:00', 'key_YJaqFVhJswmYqjmk0mDMu8', 'key.create', 'key_mFQmDAR1lz2OIZQl9ZW2FO');
INSERT INTO public.audit VALUES (3, '2026-11-17T03:07:35.763911+00:00', 'key_YJaqFVhJswmYqjmk0mDMu8', 'key.create', 'key_7iin49dOqXHXMScJ20Jj2H');
INSERT INTO public.audit VALUES (4, '2026-11-17T03:07:35.993877+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'population.create', 'pop_TVvxt1HkZVXkTIN25PIeRn');
INSERT INTO public.audit VALUES (5, '2026-11-17T03:07:35.993877+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'dataset.create', 'ds_USFoyeqUNAGR29M3LjvQWQ');
INSERT INTO public.audit VALUES (6, '2026-11-17T03:07:36.310173+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'dataset.upload', 'ds_USFoyeqUNAGR29M3LjvQWQ');
INSERT INTO public.audit VALUES (7, '2026-11-17T03:07:37.240600+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'population.create', 'pop_KPgdPIKpeQjODVyK6tzirz');
INSERT INTO public.audit VALUES (8, '2026-11-17T03:07:37.240600+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'dataset.create', 'ds_JSURDW31XWjOXqgRYUqg7u');
INSERT INTO public.audit VALUES (9, '2026-11-17T03:07:37.333572+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'dataset.upload', 'ds_JSURDW31XWjOXqgRYUqg7u');
INSERT INTO public.audit VALUES (10, '2026-11-17T03:07:37.521360+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'population.create', 'pop_klo1NyV0kJjvvzEvOoqRGl');
INSERT INTO public.audit VALUES (11, '2026-11-17T03:07:37.521360+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'dataset.create', 'ds_1SUSbMPuzD8VpN1ZYU1bYZ');
INSERT INTO public.audit VALUES (12, '2026-11-17T03:07:37.629389+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'dataset.upload', 'ds_1SUSbMPuzD8VpN1ZYU1bYZ');
INSERT INTO public.audit VALUES (13, '2026-11-17T03:07:37.933145+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'grant.create', 'gr_kmx6obQZqIwKHUUTbqIhMv');
INSERT INTO public.audit VALUES (14, '2026-11-17T03:07:38.084739+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'grant.create', 'gr_XIHqF3qkWKHEdQVUzBCBbQ');
INSERT INTO public.audit VALUES (15, '2026-11-17T03:07:38.321078+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'grant.create', 'gr_2J60llIaSn38bmladJ6ugG');
INSERT INTO public.audit VALUES (16, '2026-11-17T03:07:38.445310+00:00', 'key_7iin49dOqXHXMScJ20Jj2H', 'training.submit', 'tr_caQ8lOYhoQNTKo0rf4y9qG');
INSERT INTO public.audit VALUES (17, '2026-11-17T03:07:46.184511+00:00', 'key_7iin49dOqXHXMScJ20Jj2H', 'policy.derive', 'pol_gOnqWNxwmcKCZxVmTSCbOz');
INSERT INTO public.audit VALUES (18, '2026-11-17T03:07:46.290617+00:00', 'key_7iin49dOqXHXMScJ20Jj2H', 'training.submit', 'tr_xTjDntZVlmFjuvOtTMJTxr');
INSERT INTO public.audit VALUES (19, '2026-11-17T03:07:48.695873+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'dataset.retire', 'ds_JSURDW31XWjOXqgRYUqg7u');
INSERT INTO public.audit VALUES (20, '2026-11-17T03:07:48.729447+00:00', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'budget.change', 'pop_TVvxt1HkZVXkTIN25PIeRn');
INSERT INTO public.audit VALUES (21, '2026-11-17T03:07:48.737955+00:00', 'key_7iin49dOqXHXMScJ20Jj2H', 'training.submit', 'tr_5jXjBTvdZKLftWIGltc7z8');
INSERT INTO public.audit VALUES (22, '2026-11-17T03:07:58.391382+00:00', 'key_7iin49dOqXHXMScJ20Jj2H', 'training.submit', 'tr_b4GJU7iFiOzvYLJdQKFc95');
INSERT INTO public.audit VALUES (23, '2026-11-17T03:07:58.465888+00:00', 'key_7iin49dOqXHXMScJ20Jj2H', 'training.cancel', 'tr_b4GJU7iFiOzvYLJdQKFc95');
INSERT INTO public.audit VALUES (24, '2026-11-17T03:07:58.512738+00:00', 'key_7iin49dOqXHXMScJ20Jj2H', 'training.submit', 'tr_Phoj5pTfDaT0MWqot63FZU');
INSERT INTO public.datasets VALUES ('ds_USFoyeqUNAGR29M3LjvQWQ', 'pop_TVvxt1HkZVXkTIN25PIeRn', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'icu', 'ready', '{"actions":{"count":2,"labels":["wait","treat"]},"horizon":3,"max_trajectories_per_unit":1,"reward":{"high":1,"low":0},"states":{"count":4,"kind":"discrete"}}', 40, 'up_eNgkp5qEPuAOR9pJbFS5C2', '2026-11-17T03:07:35.993877+00:00');
INSERT INTO public.datasets VALUES ('ds_1SUSbMPuzD8VpN1ZYU1bYZ', 'pop_klo1NyV0kJjvvzEvOoqRGl', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'icu', 'ready', '{"actions":{"count":2,"labels":["wait","treat"]},"horizon":3,"max_trajectories_per_unit":10000,"reward":{"high":1,"low":0},"states":{"count":4,"kind":"discrete"}}', 30, 'up_UN0V2pf2kt44PtdGE8v75V', '2026-11-17T03:07:37.521360+00:00');
INSERT INTO public.datasets VALUES ('ds_JSURDW31XWjOXqgRYUqg7u', 'pop_KPgdPIKpeQjODVyK6tzirz', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'icu', 'retired', '{"actions":{"count":2,"labels":["wait","treat"]},"horizon":3,"max_trajectories_per_unit":1,"reward":{"high":1,"low":0},"states":{"count":4,"kind":"discrete"}}', 20, 'up_apTptmBtBPR0HjbJz0B5Wh', '2026-11-17T03:07:37.240600+00:00');
INSERT INTO public.drawn VALUES ('tr_caQ8lOYhoQNTKo0rf4y9qG', 0, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a060000000000000004000000000000000b000000000000000a0000000000000003000000000000000700000000000000ffffffffffffffff040000000000000003000000000000000500000000000000feffffffffffffff02000000000000000300000000000000ffffffffffffffff0600000000000000090000000000000005000000000000000600000000000000030000000000000001000000000000000700000000000000040000000000000004000000000000000600000000000000');
INSERT INTO public.drawn VALUES ('tr_caQ8lOYhoQNTKo0rf4y9qG', 1, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a52cc0900000000001a10ffffffffffffca00000000000000a568feffffffffffab02ffffffffffffe8a9feffffffffffb6f6feffffffffff102efdffffffffffb8130200000000003d5a010000000000eb5f010000000000570203000000000075d4fdffffffffff77b80000000000005cb9050000000000009ffbffffffffff3a400000000000000d0b0100000000006f17040000000000c89c000000000000e2f7000000000000f249f8ffffffffff2f060200000000003e27ffffffffffff');
INSERT INTO public.drawn VALUES ('tr_caQ8lOYhoQNTKo0rf4y9qG', 2, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028302c2035292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a');
INSERT INTO public.drawn VALUES ('tr_xTjDntZVlmFjuvOtTMJTxr', 0, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a0d000000000000000800000000000000f9fffffffffffffffeffffffffffffff00000000000000000c000000000000000000000000000000fbfffffffffffffffcfffffffffffffffeffffffffffffff01000000000000000500000000000000060000000000000001000000000000000200000000000000feffffffffffffff040000000000000003000000000000000500000000000000ffffffffffffffff00000000000000000800000000000000ffffffffffffffff0300000000000000');
INSERT INTO public.drawn VALUES ('tr_xTjDntZVlmFjuvOtTMJTxr', 1, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200ae94f01000000000036ff010000000000f0ea040000000000232902000000000039bcfdffffffffff18dd0000000000007128ffffffffffffff9100000000000011f2010000000000557dffffffffffffb376000000000000bf670400000000005050feffffffffff5b9afeffffffffffd80cffffffffffff3dc8ffffffffffffd3b90200000000006100010000000000f143020000000000b11b000000000000d3b4fcffffffffff3a1c020000000000e3fef8ffffffffff7654fbffffffffff');
INSERT INTO public.drawn VALUES ('tr_xTjDntZVlmFjuvOtTMJTxr', 2, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028302c2035292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a');
INSERT INTO public.drawn VALUES ('tr_5jXjBTvdZKLftWIGltc7z8', 0, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200acdaeffffffffffff26650000000000004d78000000000000da30010000000000e5ed0000000000006cb5feffffffffff6351000000000000744c00000000000001ff000000000000fb6affffffffffff489d0100000000002d93010000000000fc5cffffffffffff117dfeffffffffff185effffffffffff2d290000000000004362010000000000efceffffffffffff7ab4ffffffffffff3e8b000000000000646fffffffffffff93ba000000000000faa6000000000000a587000000000000');
INSERT INTO public.drawn VALUES ('tr_5jXjBTvdZKLftWIGltc7z8', 1, 0, '\x934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028332c20342c2032292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200aa7b3784d000000002ba218f5ffffffff7f972a6800000000397d26ba00000000c61ddbd2ffffffff5fd2c05e000000002886821affffffff080034b1000000003218da8a0000000041a6a474000000003726badaffffffff720bd63b00000000ba144b19000000009de38d62ffffffffcaf271e4000000001c076d1600000000270ba448000000002cb7f6c0ffffffff2808442e00000000b3346535000000008c7fd2df000000007a6a7ee6ffffffffca1d41acffffffff0469ee6600000000');
INSERT INTO public.draws VALUES ('tr_caQ8lOYhoQNTKo0rf4y9qG', 0, '["gaussian","visits of each state and action, each step",[3,4,2],"everyone","6","18","1"]', true);
INSERT INTO public.draws VALUES ('tr_caQ8lOYhoQNTKo0rf4y9qG', 1, '["gaussian","centred rewards of each state and action, each step",[3,4,2],"everyone","3","9","1/65536"]', true);
INSERT INTO public.draws VALUES ('tr_caQ8lOYhoQNTKo0rf4y9qG', 2, '["gaussian","transitions from each state and action to each next state or the end, each step",[3,4,2,5],"everyone","6","18","1"]', true);
INSERT INTO public.draws VALUES ('tr_xTjDntZVlmFjuvOtTMJTxr', 0, '["gaussian","visits of each state and action, each step",[3,4,2],"everyone","6","18","1"]', true);
INSERT INTO public.draws VALUES ('tr_xTjDntZVlmFjuvOtTMJTxr', 1, '["gaussian","centred rewards of each state and action, each step",[3,4,2],"everyone","3","9","1/65536"]', true);
INSERT INTO public.draws VALUES ('tr_xTjDntZVlmFjuvOtTMJTxr', 2, '["gaussian","transitions from each state and action to each next state or the end, each step",[3,4,2,5],"everyone","6","18","1"]', true);
INSERT INTO public.draws VALUES ('tr_5jXjBTvdZKLftWIGltc7z8', 0, '["gaussian","visits of each state and action, each step",[3,4,2],"everyone","600000000","1800000000","1"]', true);
INSERT INTO public.draws VALUES ('tr_5jXjBTvdZKLftWIGltc7z8', 1, '["gaussian","centred rewards of each state and action, each step",[3,4,2],"everyone","300000000","900000000","1/65536"]', true);
INSERT INTO public.grants VALUES ('gr_XIHqF3qkWKHEdQVUzBCBbQ', 'pop_KPgdPIKpeQjODVyK6tzirz', 'ds_JSURDW31XWjOXqgRYUqg7u', 'key_7iin49dOqXHXMScJ20Jj2H', 8000000000, 500000000, false, '2026-11-17T03:07:38.084739+00:00');
INSERT INTO public.grants VALUES ('gr_2J60llIaSn38bmladJ6ugG', 'pop_klo1NyV0kJjvvzEvOoqRGl', 'ds_1SUSbMPuzD8VpN1ZYU1bYZ', 'key_7iin49dOqXHXMScJ20Jj2H', 8000000000, 500000000, false, '2026-11-17T03:07:38.321078+00:00');
INSERT INTO public.grants VALUES ('gr_kmx6obQZqIwKHUUTbqIhMv', 'pop_TVvxt1HkZVXkTIN25PIeRn', 'ds_USFoyeqUNAGR29M3LjvQWQ', 'key_7iin49dOqXHXMScJ20Jj2H', 8000000000, 1000000000, false, '2026-11-17T03:07:37.933145+00:00');
INSERT INTO public.keys VALUES ('key_YJaqFVhJswmYqjmk0mDMu8', 'first administrator', 'admin', 'c8e41705be4afe888ecb1556410a50c80b9bc866cc35cad0a3ff7a4f52529962', '2026-11-17T03:07:34.844602+00:00', NULL);
INSERT INTO public.keys VALUES ('key_mFQmDAR1lz2OIZQl9ZW2FO', 'custodian', 'custodian', 'c70ccc1cb29f856ed21936f28cf5aa8007dd34f0e2cfd5bc0f965ae931b21518', '2026-11-17T03:07:35.598559+00:00', NULL);
INSERT INTO public.keys VALUES ('key_7iin49dOqXHXMScJ20Jj2H', 'analyst', 'analyst', '11eb5f837071a472aaac3e4ad44621bdafad3e899988f563bdcbd946a79e627b', '2026-11-17T03:07:35.763911+00:00', NULL);
INSERT INTO public.ledger VALUES ('pop_TVvxt1HkZVXkTIN25PIeRn', 1, '2026-11-17T03:07:35.993877+00:00', 'open', 10000000000, NULL, 'key_mFQmDAR1lz2OIZQl9ZW2FO', NULL, '0000000000000000000000000000000000000000000000000000000000000000', '15c817d8db456a9c589fd33a6cbbd0aab672138a34571a1ea97e2af8d56cff8a');
INSERT INTO public.ledger VALUES ('pop_KPgdPIKpeQjODVyK6tzirz', 1, '2026-11-17T03:07:37.240600+00:00', 'open', 1000000000, NULL, 'key_mFQmDAR1lz2OIZQl9ZW2FO', NULL, '0000000000000000000000000000000000000000000000000000000000000000', 'e5298f8b4267f2c979799a6e6cb63982ee9e6161781c21f6957e0de3f2327075');
INSERT INTO public.ledger VALUES ('pop_klo1NyV0kJjvvzEvOoqRGl', 1, '2026-11-17T03:07:37.521360+00:00', 'open', 5000000000, NULL, 'key_mFQmDAR1lz2OIZQl9ZW2FO', NULL, '0000000000000000000000000000000000000000000000000000000000000000', 'b0d10a7529ef69ac563dd314ecdf47c567331e539861f77ed59eb3d1144a6df8');
INSERT INTO public.ledger VALUES ('pop_TVvxt1HkZVXkTIN25PIeRn', 2, '2026-11-17T03:07:38.445310+00:00', 'reserve', 500000000, 'tr_caQ8lOYhoQNTKo0rf4y9qG', 'key_7iin49dOqXHXMScJ20Jj2H', NULL, '15c817d8db456a9c589fd33a6cbbd0aab672138a34571a1ea97e2af8d56cff8a', '8904b755e39ccfc8d5d05c23519c5cdfe8b794d676d6a312a45194e049f05f75');
INSERT INTO public.ledger VALUES ('pop_TVvxt1HkZVXkTIN25PIeRn', 3, '2026-11-17T03:07:43.989488+00:00', 'charge', 500000000, 'tr_caQ8lOYhoQNTKo0rf4y9qG', 'worker', NULL, '8904b755e39ccfc8d5d05c23519c5cdfe8b794d676d6a312a45194e049f05f75', '6fb8727743c08c3e08a1c83bf6ba8b161d8e92e37d3977147675de077d514283');
INSERT INTO public.ledger VALUES ('pop_KPgdPIKpeQjODVyK6tzirz', 2, '2026-11-17T03:07:46.290617+00:00', 'reserve', 500000000, 'tr_xTjDntZVlmFjuvOtTMJTxr', 'key_7iin49dOqXHXMScJ20Jj2H', NULL, 'e5298f8b4267f2c979799a6e6cb63982ee9e6161781c21f6957e0de3f2327075', 'd04d64b921cfff8484a604d7b00eca0a5300fee74eb9e389e2e1804a1482d20a');
INSERT INTO public.ledger VALUES ('pop_KPgdPIKpeQjODVyK6tzirz', 3, '2026-11-17T03:07:46.483034+00:00', 'charge', 500000000, 'tr_xTjDntZVlmFjuvOtTMJTxr', 'worker', NULL, 'd04d64b921cfff8484a604d7b00eca0a5300fee74eb9e389e2e1804a1482d20a', 'ec54bdc1e52b24919936c7ffc7ea77861635d8644c2ec8b640bb7ff03f850209');
INSERT INTO public.ledger VALUES ('pop_TVvxt1HkZVXkTIN25PIeRn', 4, '2026-11-17T03:07:48.729447+00:00', 'adjust', -1000000000, NULL, 'key_mFQmDAR1lz2OIZQl9ZW2FO', 'The ethics board allows nine.', '6fb8727743c08c3e08a1c83bf6ba8b161d8e92e37d3977147675de077d514283', 'a60d605c6d980027bddde6943698b7a19a6a7561edb6933aee786ccb5090ca3d');
INSERT INTO public.ledger VALUES ('pop_klo1NyV0kJjvvzEvOoqRGl', 2, '2026-11-17T03:07:48.737955+00:00', 'reserve', 500000000, 'tr_5jXjBTvdZKLftWIGltc7z8', 'key_7iin49dOqXHXMScJ20Jj2H', NULL, 'b0d10a7529ef69ac563dd314ecdf47c567331e539861f77ed59eb3d1144a6df8', 'e509ff03fcdfaa8a2d51dfa724c3cf2126081e5aaf47c2d635ad3096ed7ac63b');
INSERT INTO public.ledger VALUES ('pop_klo1NyV0kJjvvzEvOoqRGl', 3, '2026-11-17T03:07:48.970600+00:00', 'charge', 500000000, 'tr_5jXjBTvdZKLftWIGltc7z8', 'worker', NULL, 'e509ff03fcdfaa8a2d51dfa724c3cf2126081e5aaf47c2d635ad3096ed7ac63b', 'c7fe5f79f4c0300c84be84977aef217e82bab78204c5fb69b59d3c993690664a');
INSERT INTO public.ledger VALUES ('pop_TVvxt1HkZVXkTIN25PIeRn', 5, '2026-11-17T03:07:58.391382+00:00', 'reserve', 500000000, 'tr_b4GJU7iFiOzvYLJdQKFc95', 'key_7iin49dOqXHXMScJ20Jj2H', NULL, 'a60d605c6d980027bddde6943698b7a19a6a7561edb6933aee786ccb5090ca3d', '612c4fa4c6d1525d9a70ba3fbc6f7ae0d9ca792087570bc6c35b22d151b07f0f');
INSERT INTO public.ledger VALUES ('pop_TVvxt1HkZVXkTIN25PIeRn', 6, '2026-11-17T03:07:58.465888+00:00', 'give_back', 500000000, 'tr_b4GJU7iFiOzvYLJdQKFc95', 'key_7iin49dOqXHXMScJ20Jj2H', NULL, '612c4fa4c6d1525d9a70ba3fbc6f7ae0d9ca792087570bc6c35b22d151b07f0f', '9621fce18f3aca989a3a31d69b6e26671633b43f6b48533451b8bc025a817b24');
INSERT INTO public.ledger VALUES ('pop_TVvxt1HkZVXkTIN25PIeRn', 7, '2026-11-17T03:07:58.512738+00:00', 'reserve', 500000000, 'tr_Phoj5pTfDaT0MWqot63FZU', 'key_7iin49dOqXHXMScJ20Jj2H', NULL, '9621fce18f3aca989a3a31d69b6e26671633b43f6b48533451b8bc025a817b24', 'ac61f4c6fcbc1ee0c3b868e42e02b12c81be93a6ee317c952f171e1fadccc906');
INSERT INTO public.populations VALUES ('pop_KPgdPIKpeQjODVyK6tzirz', 'icu', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 1000000000, 0, 500000000, 3, 'ec54bdc1e52b24919936c7ffc7ea77861635d8644c2ec8b640bb7ff03f850209', '2026-11-17T03:07:37.240600+00:00');
INSERT INTO public.populations VALUES ('pop_klo1NyV0kJjvvzEvOoqRGl', 'icu', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 5000000000, 0, 500000000, 3, 'c7fe5f79f4c0300c84be84977aef217e82bab78204c5fb69b59d3c993690664a', '2026-11-17T03:07:37.521360+00:00');
INSERT INTO public.populations VALUES ('pop_TVvxt1HkZVXkTIN25PIeRn', 'icu', 'key_mFQmDAR1lz2OIZQl9ZW2FO', 9000000000, 500000000, 500000000, 7, 'ac61f4c6fcbc1ee0c3b868e42e02b12c81be93a6ee317c952f171e1fadccc906', '2026-11-17T03:07:35.993877+00:00');
INSERT INTO public.releases VALUES ('pol_MEvYq1mByukYtLiTzJiERG', 'tr_caQ8lOYhoQNTKo0rf4y9qG', 'ds_USFoyeqUNAGR29M3LjvQWQ', 'key_7iin49dOqXHXMScJ20Jj2H', 'dp-apvi', false, '{"actions":{"count":2,"labels":["wait","treat"]},"algorithm":"dp-apvi","decisions":[[0,0,1,1],[1,1,0,1],[1,0,0,1]],"horizon":3,"id":"pol_MEvYq1mByukYtLiTzJiERG","pessimistic_score":[[0,0,0,0],[0,0,0,0],[0,0,0,0]],"source":[["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"]],"states":{"count":4,"kind":"discrete"},"value_lower_bound":null}', '{"payload": "eyJjb21wb3NpdGlvbiI6IlRoZSDPgSBvZiBHYXVzc2lhbiByZWxlYXNlcyB0aGF0IHJlYWQgdGhlIHNhbWUgdW5pdCBhZGQgdXA7IHRoZSDOtSBvZiBMYXBsYWNlIHJlbGVhc2VzIGFkZCB1cCBhbmQgY291bnQgYXMgzrXCsi8yOyBhIHVuaXQgc2l0cyBpbiBvbmUgaGFsZiBvZiB0aGUgZGF0YSBvbmx5LCBzbyB0aGF0IG9mIHR3byBoYWx2ZXMgdGhlIGRlYXJlciBvbmUgY291bnRzLiIsImRlcml2ZWRfZnJvbSI6bnVsbCwibGVkZ2VyIjp7Imhhc2giOiI2ZmI4NzI3NzQzYzA4YzNlMDhhMWM4M2JmNmJhOGIxNjFkOGU5MmUzN2QzOTc3MTQ3Njc1ZGUwNzdkNTE0MjgzIiwicG9wdWxhdGlvbiI6InBvcF9UVnZ4dDFIa1pWWGtUSU4yNVBJZVJuIiwic2VxdWVuY2UiOjN9LCJtZWNoYW5pc21zIjpbeyJtZWNoYW5pc20iOiJnYXVzc2lhbiIsInBhcnQiOiJldmVyeW9uZSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmVzb2x1dGlvbiI6IjEvMSIsInJobyI6IjEvNiIsInNjYWxlIjp7ImtpbmQiOiJ2YXJpYW5jZSIsInZhbHVlIjoiMTgvMSJ9LCJzZW5zaXRpdml0eSI6eyJub3JtIjoic3F1YXJlZCBsMiIsInZhbHVlIjoiNi8xIn0sInNoYXBlIjpbMyw0LDJdLCJzdGF0aXN0aWMiOiJ2aXNpdHMgb2YgZWFjaCBzdGF0ZSBhbmQgYWN0aW9uLCBlYWNoIHN0ZXAifSx7Im1lY2hhbmlzbSI6ImdhdXNzaWFuIiwicGFydCI6ImV2ZXJ5b25lIiwicHVyZV9lcHNpbG9uIjpudWxsLCJyZXNvbHV0aW9uIjoiMS8xIiwicmhvIjoiMS82Iiwic2NhbGUiOnsia2luZCI6InZhcmlhbmNlIiwidmFsdWUiOiIxOC8xIn0sInNlbnNpdGl2aXR5Ijp7Im5vcm0iOiJzcXVhcmVkIGwyIiwidmFsdWUiOiI2LzEifSwic2hhcGUiOlszLDQsMiw1XSwic3RhdGlzdGljIjoidHJhbnNpdGlvbnMgZnJvbSBlYWNoIHN0YXRlIGFuZCBhY3Rpb24gdG8gZWFjaCBuZXh0IHN0YXRlIG9yIHRoZSBlbmQsIGVhY2ggc3RlcCJ9LHsibWVjaGFuaXNtIjoiZ2F1c3NpYW4iLCJwYXJ0IjoiZXZlcnlvbmUiLCJwdXJlX2Vwc2lsb24iOm51bGwsInJlc29sdXRpb24iOiIxLzY1NTM2IiwicmhvIjoiMS82Iiwic2NhbGUiOnsia2luZCI6InZhcmlhbmNlIiwidmFsdWUiOiI5LzEifSwic2Vuc2l0aXZpdHkiOnsibm9ybSI6InNxdWFyZWQgbDIiLCJ2YWx1ZSI6IjMvMSJ9LCJzaGFwZSI6WzMsNCwyXSwic3RhdGlzdGljIjoiY2VudHJlZCByZXdhcmRzIG9mIGVhY2ggc3RhdGUgYW5kIGFjdGlvbiwgZWFjaCBzdGVwIn1dLCJub3RfY292ZXJlZCI6WyJIb3cgbG9uZyB0aGUgd29yayB3YWl0ZWQgaW4gdGhlIHF1ZXVlLCBhbmQgd2hldGhlciBpdHMgcmVzdWx0IHdhcyBwdWJsaXNoZWQgYXQgaXRzIHVzdWFsIHRpbWUgb3IgYXQgYSBsYXRlciBvbmUsIHJlbWFpbiB2aXNpYmxlLiIsIlRoZSBzY2hlbWEsIHRoZSBib3VuZHMgaW4gaXQgYW5kIHRoZSBudW1iZXIgb2YgdW5pdHMgYXJlIHB1YmxpYyBhbmQgbm90IHByb3RlY3RlZC4iLCJXaGF0IGlzIHRydWUgb2YgcGF0aWVudHMgYXMgYSBncm91cCBtYXkgYmUgbGVhcm5lZCBmcm9tIHRoZSByZXN1bHQsIGFsc28gYWJvdXQgYSBwYXRpZW50IHdobyBpcyBub3QgaW4gdGhlIGRhdGEuIiwiT3RoZXIgcmVsZWFzZXMgYWJvdXQgdGhlIHNhbWUgcG9wdWxhdGlvbiBjb3N0IGEgz4Egb2YgdGhlaXIgb3duLCBhbmQgdGhlc2UgYWRkIHVwOyBpdHMgbGVkZ2VyIGhhcyB0aGUgc3VtLiIsIkEgcGF0aWVudCB3aG8gYmVsb25ncyB0byBzZXZlcmFsIHBvcHVsYXRpb25zIHBheXMgaW4gZWFjaCBvZiB0aGVtLCBhbmQgdGhlc2UgY29zdHMgYWRkIHVwLiIsIlRoZSBjdXN0b2RpYW4sIGFuZCB3aG9ldmVyIGFkbWluaXN0ZXJzIHRoZSBjb21wdXRlcnMsIGNhbiByZWFkIHRoZSByYXcgZGF0YS4iXSwicG9saWN5Ijp7ImlkIjoicG9sX01FdllxMW1CeXVrWXRMaVR6SmlFUkciLCJzaGEyNTYiOiIxMmFhYjg0YWIyNGM0ZjUyMzYxMzU1NzVhZjBhODQxNGYxYzI3YWFiNWMyNGZhYzcwNmU1ZjA4NWM5NjY3YmMyIn0sInByaXZhY3kiOnsiY2hhcmdlZF9yaG8iOiIwLjUiLCJlcHNpbG9uIjpbeyJkZWx0YSI6IjFlLTUiLCJlcHNpbG9uIjoiNC43MjkifSx7ImRlbHRhIjoiMWUtNiIsImVwc2lsb24iOiI1LjIyMiJ9LHsiZGVsdGEiOiIxZS05IiwiZXBzaWxvbiI6IjYuNDc1In1dLCJmdXJ0aGVyX3JobyI6IjAuNSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmhvIjoiMS8yIn0sInByb21pc2UiOnsiZ3VhcmFudGVlIjoiVGhlIGNvbnRlbnQgb2YgdGhpcyByZWxlYXNlIGlzIM-BLXpDRFAgZm9yIG5laWdoYm91cnMsIHdpdGggdGhlIHRvdGFsIM-BIGJlbG93LiBUaGUgZ3VhcmFudGVlIGlzIGNvbXB1dGF0aW9uYWw6IHRoZSBub2lzZSBjb21lcyBmcm9tIEFFUy0yNTYgaW4gY291bnRlciBtb2RlIHVuZGVyIGEga2V5IG9mIHRoZSBvcGVyYXRpbmcgc3lzdGVtLCBhbmQgdGhlIHByb21pc2UgaG9sZHMgYWdhaW5zdCB3aG9ldmVyIGNhbm5vdCB0ZWxsIHRoYXQgZnJvbSBjaGFuY2UuIiwibmVpZ2hib3VycyI6IlR3byBzaXR1YXRpb25zIGFyZSBuZWlnaGJvdXJzIGlmIHRoZSByZWNvcmRzIG9mIG9uZSB1bml0IGFyZSByZXBsYWNlZCBieSBhbnkgb3RoZXJzIGluIGV2ZXJ5IGRhdGFzZXQgb2YgdGhlIHBvcHVsYXRpb24sIHdoaWxlIHRoZSB1bml0cyB0aGF0IGJlbG9uZyB0byBpdCBzdGF5IHRoZSBzYW1lLiIsInVuaXQiOiJPbmUgdW5pdCBpcyBvbmUgcGF0aWVudCwgd2l0aCBldmVyeXRoaW5nIHJlY29yZGVkIGFib3V0IHRoYXQgcGF0aWVudCBpbiB0aGUgZGF0YXNldC4ifSwicmVxdWVzdCI6eyJhbGdvcml0aG0iOiJkcC1hcHZpIiwiY2hvc2VuIjpudWxsLCJoYWxmIjpudWxsLCJwYXJhbWV0ZXJzIjp7ImMiOjIsImMxIjowLjUsImMyIjowLCJjYWxpYnJhdGlvbiI6InRpZ2h0IiwiZGVsdGEiOjAuMSwiZHluYW1pY3MiOiJwZXJfc3RlcCIsInBlc3NpbWlzbSI6ImJlcm5zdGVpbiIsInJld2FyZCI6bnVsbCwic2hhcmVzIjpbMSwxLDFdfSwicHJpdmFjeSI6eyJyaG8iOiIwLjUifSwic2NoZW1hIjp7ImFjdGlvbnMiOnsiY291bnQiOjIsImxhYmVscyI6WyJ3YWl0IiwidHJlYXQiXX0sImhvcml6b24iOjMsIm1heF90cmFqZWN0b3JpZXNfcGVyX3VuaXQiOjEsInJld2FyZCI6eyJoaWdoIjoxLCJsb3ciOjB9LCJzdGF0ZXMiOnsiY291bnQiOjQsImtpbmQiOiJkaXNjcmV0ZSJ9fSwidW5pdHMiOjQwfSwic29mdHdhcmUiOnsibmFtZSI6ImRpc2NyZXRpb24iLCJ2ZXJzaW9uIjoiMC4xLjAifSwidmVyc2lvbiI6MX0", "protected": "eyJhbGciOiJFZERTQSIsImtpZCI6IkdHNlNHZ0d6YkxqWnpubXd6WVRmTkJkdUJ6TDN4QjQtQ2U5MXlKSWpVNmciLCJ0eXAiOiJkaXNjcmV0aW9uLWNlcnRpZmljYXRlK2p3cyJ9", "signature": "tq8qWxs-6C8CRaJaeB2DaJwsXVnh4q_JoDjJnZFpWn-AgRARoCvDnj2aRY3w3Gro1ciM4ZgGNpjT0dplqfeEDw"}', '2026-11-17T03:07:46.118548+00:00');
INSERT INTO public.releases VALUES ('pol_gOnqWNxwmcKCZxVmTSCbOz', 'tr_caQ8lOYhoQNTKo0rf4y9qG', 'ds_USFoyeqUNAGR29M3LjvQWQ', 'key_7iin49dOqXHXMScJ20Jj2H', 'dp-apvi', true, '{"actions":{"count":2,"labels":["wait","treat"]},"algorithm":"dp-apvi","decisions":[[0,0,1,1],[1,1,0,1],[1,0,0,1]],"horizon":3,"id":"pol_gOnqWNxwmcKCZxVmTSCbOz","pessimistic_score":[[0,0,0,0],[0,0,0,0],[0,0,0,0]],"source":[["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"]],"states":{"count":4,"kind":"discrete"},"value_lower_bound":null}', '{"payload": "eyJjb21wb3NpdGlvbiI6IlRoZSDPgSBvZiBHYXVzc2lhbiByZWxlYXNlcyB0aGF0IHJlYWQgdGhlIHNhbWUgdW5pdCBhZGQgdXA7IHRoZSDOtSBvZiBMYXBsYWNlIHJlbGVhc2VzIGFkZCB1cCBhbmQgY291bnQgYXMgzrXCsi8yOyBhIHVuaXQgc2l0cyBpbiBvbmUgaGFsZiBvZiB0aGUgZGF0YSBvbmx5LCBzbyB0aGF0IG9mIHR3byBoYWx2ZXMgdGhlIGRlYXJlciBvbmUgY291bnRzLiIsImRlcml2ZWRfZnJvbSI6eyJwYXJhbWV0ZXJzIjp7ImMiOjIsImMxIjowLjUsImMyIjowLCJjYWxpYnJhdGlvbiI6InRpZ2h0IiwiZGVsdGEiOjAuMSwiZHluYW1pY3MiOiJwZXJfc3RlcCIsInBlc3NpbWlzbSI6ImJlcm5zdGVpbiIsInJld2FyZCI6bnVsbCwic2hhcmVzIjpbMSwxLDFdfSwidHJhaW5pbmciOiJ0cl9jYVE4bE9ZaG9RTlRLbzByZjR5OXFHIn0sImxlZGdlciI6eyJoYXNoIjoiNmZiODcyNzc0M2MwOGMzZTA4YTFjODNiZjZiYThiMTYxZDhlOTJlMzdkMzk3NzE0NzY3NWRlMDc3ZDUxNDI4MyIsInBvcHVsYXRpb24iOiJwb3BfVFZ2eHQxSGtaVlhrVElOMjVQSWVSbiIsInNlcXVlbmNlIjozfSwibWVjaGFuaXNtcyI6W3sibWVjaGFuaXNtIjoiZ2F1c3NpYW4iLCJwYXJ0IjoiZXZlcnlvbmUiLCJwdXJlX2Vwc2lsb24iOm51bGwsInJlc29sdXRpb24iOiIxLzEiLCJyaG8iOiIxLzYiLCJzY2FsZSI6eyJraW5kIjoidmFyaWFuY2UiLCJ2YWx1ZSI6IjE4LzEifSwic2Vuc2l0aXZpdHkiOnsibm9ybSI6InNxdWFyZWQgbDIiLCJ2YWx1ZSI6IjYvMSJ9LCJzaGFwZSI6WzMsNCwyXSwic3RhdGlzdGljIjoidmlzaXRzIG9mIGVhY2ggc3RhdGUgYW5kIGFjdGlvbiwgZWFjaCBzdGVwIn0seyJtZWNoYW5pc20iOiJnYXVzc2lhbiIsInBhcnQiOiJldmVyeW9uZSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmVzb2x1dGlvbiI6IjEvMSIsInJobyI6IjEvNiIsInNjYWxlIjp7ImtpbmQiOiJ2YXJpYW5jZSIsInZhbHVlIjoiMTgvMSJ9LCJzZW5zaXRpdml0eSI6eyJub3JtIjoic3F1YXJlZCBsMiIsInZhbHVlIjoiNi8xIn0sInNoYXBlIjpbMyw0LDIsNV0sInN0YXRpc3RpYyI6InRyYW5zaXRpb25zIGZyb20gZWFjaCBzdGF0ZSBhbmQgYWN0aW9uIHRvIGVhY2ggbmV4dCBzdGF0ZSBvciB0aGUgZW5kLCBlYWNoIHN0ZXAifSx7Im1lY2hhbmlzbSI6ImdhdXNzaWFuIiwicGFydCI6ImV2ZXJ5b25lIiwicHVyZV9lcHNpbG9uIjpudWxsLCJyZXNvbHV0aW9uIjoiMS82NTUzNiIsInJobyI6IjEvNiIsInNjYWxlIjp7ImtpbmQiOiJ2YXJpYW5jZSIsInZhbHVlIjoiOS8xIn0sInNlbnNpdGl2aXR5Ijp7Im5vcm0iOiJzcXVhcmVkIGwyIiwidmFsdWUiOiIzLzEifSwic2hhcGUiOlszLDQsMl0sInN0YXRpc3RpYyI6ImNlbnRyZWQgcmV3YXJkcyBvZiBlYWNoIHN0YXRlIGFuZCBhY3Rpb24sIGVhY2ggc3RlcCJ9XSwibm90X2NvdmVyZWQiOlsiSG93IGxvbmcgdGhlIHdvcmsgd2FpdGVkIGluIHRoZSBxdWV1ZSwgYW5kIHdoZXRoZXIgaXRzIHJlc3VsdCB3YXMgcHVibGlzaGVkIGF0IGl0cyB1c3VhbCB0aW1lIG9yIGF0IGEgbGF0ZXIgb25lLCByZW1haW4gdmlzaWJsZS4iLCJUaGUgc2NoZW1hLCB0aGUgYm91bmRzIGluIGl0IGFuZCB0aGUgbnVtYmVyIG9mIHVuaXRzIGFyZSBwdWJsaWMgYW5kIG5vdCBwcm90ZWN0ZWQuIiwiV2hhdCBpcyB0cnVlIG9mIHBhdGllbnRzIGFzIGEgZ3JvdXAgbWF5IGJlIGxlYXJuZWQgZnJvbSB0aGUgcmVzdWx0LCBhbHNvIGFib3V0IGEgcGF0aWVudCB3aG8gaXMgbm90IGluIHRoZSBkYXRhLiIsIk90aGVyIHJlbGVhc2VzIGFib3V0IHRoZSBzYW1lIHBvcHVsYXRpb24gY29zdCBhIM-BIG9mIHRoZWlyIG93biwgYW5kIHRoZXNlIGFkZCB1cDsgaXRzIGxlZGdlciBoYXMgdGhlIHN1bS4iLCJBIHBhdGllbnQgd2hvIGJlbG9uZ3MgdG8gc2V2ZXJhbCBwb3B1bGF0aW9ucyBwYXlzIGluIGVhY2ggb2YgdGhlbSwgYW5kIHRoZXNlIGNvc3RzIGFkZCB1cC4iLCJUaGUgY3VzdG9kaWFuLCBhbmQgd2hvZXZlciBhZG1pbmlzdGVycyB0aGUgY29tcHV0ZXJzLCBjYW4gcmVhZCB0aGUgcmF3IGRhdGEuIl0sInBvbGljeSI6eyJpZCI6InBvbF9nT25xV054d21jS0NaeFZtVFNDYk96Iiwic2hhMjU2IjoiYzc5YmY3ZGUzMjEwMGRhMmJkZWE3OTE1NDQzYzEzYzhiN2M5NTgxZGE3MjY3OTUwMzY4NzZhYjE5ZjE3MjM4YyJ9LCJwcml2YWN5Ijp7ImNoYXJnZWRfcmhvIjoiMC41IiwiZXBzaWxvbiI6W3siZGVsdGEiOiIxZS01IiwiZXBzaWxvbiI6IjQuNzI5In0seyJkZWx0YSI6IjFlLTYiLCJlcHNpbG9uIjoiNS4yMjIifSx7ImRlbHRhIjoiMWUtOSIsImVwc2lsb24iOiI2LjQ3NSJ9XSwiZnVydGhlcl9yaG8iOiIwIiwicHVyZV9lcHNpbG9uIjpudWxsLCJyaG8iOiIxLzIifSwicHJvbWlzZSI6eyJndWFyYW50ZWUiOiJUaGUgY29udGVudCBvZiB0aGlzIHJlbGVhc2UgaXMgz4EtekNEUCBmb3IgbmVpZ2hib3Vycywgd2l0aCB0aGUgdG90YWwgz4EgYmVsb3cuIFRoZSBndWFyYW50ZWUgaXMgY29tcHV0YXRpb25hbDogdGhlIG5vaXNlIGNvbWVzIGZyb20gQUVTLTI1NiBpbiBjb3VudGVyIG1vZGUgdW5kZXIgYSBrZXkgb2YgdGhlIG9wZXJhdGluZyBzeXN0ZW0sIGFuZCB0aGUgcHJvbWlzZSBob2xkcyBhZ2FpbnN0IHdob2V2ZXIgY2Fubm90IHRlbGwgdGhhdCBmcm9tIGNoYW5jZS4iLCJuZWlnaGJvdXJzIjoiVHdvIHNpdHVhdGlvbnMgYXJlIG5laWdoYm91cnMgaWYgdGhlIHJlY29yZHMgb2Ygb25lIHVuaXQgYXJlIHJlcGxhY2VkIGJ5IGFueSBvdGhlcnMgaW4gZXZlcnkgZGF0YXNldCBvZiB0aGUgcG9wdWxhdGlvbiwgd2hpbGUgdGhlIHVuaXRzIHRoYXQgYmVsb25nIHRvIGl0IHN0YXkgdGhlIHNhbWUuIiwidW5pdCI6Ik9uZSB1bml0IGlzIG9uZSBwYXRpZW50LCB3aXRoIGV2ZXJ5dGhpbmcgcmVjb3JkZWQgYWJvdXQgdGhhdCBwYXRpZW50IGluIHRoZSBkYXRhc2V0LiJ9LCJyZXF1ZXN0Ijp7ImFsZ29yaXRobSI6ImRwLWFwdmkiLCJjaG9zZW4iOm51bGwsImhhbGYiOm51bGwsInBhcmFtZXRlcnMiOnsiYyI6MiwiYzEiOjEuNDE0MjEzNTYyMzczMDk1MSwiYzIiOjE2LCJjYWxpYnJhdGlvbiI6InRpZ2h0IiwiZGVsdGEiOjAuMSwiZHluYW1pY3MiOiJwZXJfc3RlcCIsInBlc3NpbWlzbSI6ImJlcm5zdGVpbiIsInJld2FyZCI6bnVsbCwic2hhcmVzIjpbMSwxLDFdfSwicHJpdmFjeSI6eyJyaG8iOiIwLjUifSwic2NoZW1hIjp7ImFjdGlvbnMiOnsiY291bnQiOjIsImxhYmVscyI6WyJ3YWl0IiwidHJlYXQiXX0sImhvcml6b24iOjMsIm1heF90cmFqZWN0b3JpZXNfcGVyX3VuaXQiOjEsInJld2FyZCI6eyJoaWdoIjoxLCJsb3ciOjB9LCJzdGF0ZXMiOnsiY291bnQiOjQsImtpbmQiOiJkaXNjcmV0ZSJ9fSwidW5pdHMiOjQwfSwic29mdHdhcmUiOnsibmFtZSI6ImRpc2NyZXRpb24iLCJ2ZXJzaW9uIjoiMC4xLjAifSwidmVyc2lvbiI6MX0", "protected": "eyJhbGciOiJFZERTQSIsImtpZCI6IkdHNlNHZ0d6YkxqWnpubXd6WVRmTkJkdUJ6TDN4QjQtQ2U5MXlKSWpVNmciLCJ0eXAiOiJkaXNjcmV0aW9uLWNlcnRpZmljYXRlK2p3cyJ9", "signature": "HkIPVZ6IxNX9VJKXlbIgEb1rrx72uHrx0a1TfY8qIIvVERc-ydEOWPLhM-0YVu76MI_2xxq8aQgXRCZ-P87QCQ"}', '2026-11-17T03:07:46.184511+00:00');
INSERT INTO public.releases VALUES ('pol_9LdS7OawQn0JzmsIw05gL0', 'tr_xTjDntZVlmFjuvOtTMJTxr', 'ds_JSURDW31XWjOXqgRYUqg7u', 'key_7iin49dOqXHXMScJ20Jj2H', 'dp-apvi', false, '{"actions":{"count":2,"labels":["wait","treat"]},"algorithm":"dp-apvi","decisions":[[0,1,1,0],[1,1,0,0],[0,0,1,1]],"horizon":3,"id":"pol_9LdS7OawQn0JzmsIw05gL0","pessimistic_score":[[0,0,0,0],[0,0,0,0],[0,0,0,0]],"source":[["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"],["fallback","fallback","fallback","fallback"]],"states":{"count":4,"kind":"discrete"},"value_lower_bound":null}', '{"payload": "eyJjb21wb3NpdGlvbiI6IlRoZSDPgSBvZiBHYXVzc2lhbiByZWxlYXNlcyB0aGF0IHJlYWQgdGhlIHNhbWUgdW5pdCBhZGQgdXA7IHRoZSDOtSBvZiBMYXBsYWNlIHJlbGVhc2VzIGFkZCB1cCBhbmQgY291bnQgYXMgzrXCsi8yOyBhIHVuaXQgc2l0cyBpbiBvbmUgaGFsZiBvZiB0aGUgZGF0YSBvbmx5LCBzbyB0aGF0IG9mIHR3byBoYWx2ZXMgdGhlIGRlYXJlciBvbmUgY291bnRzLiIsImRlcml2ZWRfZnJvbSI6bnVsbCwibGVkZ2VyIjp7Imhhc2giOiJlYzU0YmRjMWU1MmIyNDkxOTkzNmM3ZmZjN2VhNzc4NjE2MzVkODY0NGMyZWM4YjY0MGJiN2ZmMDNmODUwMjA5IiwicG9wdWxhdGlvbiI6InBvcF9LUGdkUElLcGVRak9EVnlLNnR6aXJ6Iiwic2VxdWVuY2UiOjN9LCJtZWNoYW5pc21zIjpbeyJtZWNoYW5pc20iOiJnYXVzc2lhbiIsInBhcnQiOiJldmVyeW9uZSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmVzb2x1dGlvbiI6IjEvMSIsInJobyI6IjEvNiIsInNjYWxlIjp7ImtpbmQiOiJ2YXJpYW5jZSIsInZhbHVlIjoiMTgvMSJ9LCJzZW5zaXRpdml0eSI6eyJub3JtIjoic3F1YXJlZCBsMiIsInZhbHVlIjoiNi8xIn0sInNoYXBlIjpbMyw0LDJdLCJzdGF0aXN0aWMiOiJ2aXNpdHMgb2YgZWFjaCBzdGF0ZSBhbmQgYWN0aW9uLCBlYWNoIHN0ZXAifSx7Im1lY2hhbmlzbSI6ImdhdXNzaWFuIiwicGFydCI6ImV2ZXJ5b25lIiwicHVyZV9lcHNpbG9uIjpudWxsLCJyZXNvbHV0aW9uIjoiMS8xIiwicmhvIjoiMS82Iiwic2NhbGUiOnsia2luZCI6InZhcmlhbmNlIiwidmFsdWUiOiIxOC8xIn0sInNlbnNpdGl2aXR5Ijp7Im5vcm0iOiJzcXVhcmVkIGwyIiwidmFsdWUiOiI2LzEifSwic2hhcGUiOlszLDQsMiw1XSwic3RhdGlzdGljIjoidHJhbnNpdGlvbnMgZnJvbSBlYWNoIHN0YXRlIGFuZCBhY3Rpb24gdG8gZWFjaCBuZXh0IHN0YXRlIG9yIHRoZSBlbmQsIGVhY2ggc3RlcCJ9LHsibWVjaGFuaXNtIjoiZ2F1c3NpYW4iLCJwYXJ0IjoiZXZlcnlvbmUiLCJwdXJlX2Vwc2lsb24iOm51bGwsInJlc29sdXRpb24iOiIxLzY1NTM2IiwicmhvIjoiMS82Iiwic2NhbGUiOnsia2luZCI6InZhcmlhbmNlIiwidmFsdWUiOiI5LzEifSwic2Vuc2l0aXZpdHkiOnsibm9ybSI6InNxdWFyZWQgbDIiLCJ2YWx1ZSI6IjMvMSJ9LCJzaGFwZSI6WzMsNCwyXSwic3RhdGlzdGljIjoiY2VudHJlZCByZXdhcmRzIG9mIGVhY2ggc3RhdGUgYW5kIGFjdGlvbiwgZWFjaCBzdGVwIn1dLCJub3RfY292ZXJlZCI6WyJIb3cgbG9uZyB0aGUgd29yayB3YWl0ZWQgaW4gdGhlIHF1ZXVlLCBhbmQgd2hldGhlciBpdHMgcmVzdWx0IHdhcyBwdWJsaXNoZWQgYXQgaXRzIHVzdWFsIHRpbWUgb3IgYXQgYSBsYXRlciBvbmUsIHJlbWFpbiB2aXNpYmxlLiIsIlRoZSBzY2hlbWEsIHRoZSBib3VuZHMgaW4gaXQgYW5kIHRoZSBudW1iZXIgb2YgdW5pdHMgYXJlIHB1YmxpYyBhbmQgbm90IHByb3RlY3RlZC4iLCJXaGF0IGlzIHRydWUgb2YgcGF0aWVudHMgYXMgYSBncm91cCBtYXkgYmUgbGVhcm5lZCBmcm9tIHRoZSByZXN1bHQsIGFsc28gYWJvdXQgYSBwYXRpZW50IHdobyBpcyBub3QgaW4gdGhlIGRhdGEuIiwiT3RoZXIgcmVsZWFzZXMgYWJvdXQgdGhlIHNhbWUgcG9wdWxhdGlvbiBjb3N0IGEgz4Egb2YgdGhlaXIgb3duLCBhbmQgdGhlc2UgYWRkIHVwOyBpdHMgbGVkZ2VyIGhhcyB0aGUgc3VtLiIsIkEgcGF0aWVudCB3aG8gYmVsb25ncyB0byBzZXZlcmFsIHBvcHVsYXRpb25zIHBheXMgaW4gZWFjaCBvZiB0aGVtLCBhbmQgdGhlc2UgY29zdHMgYWRkIHVwLiIsIlRoZSBjdXN0b2RpYW4sIGFuZCB3aG9ldmVyIGFkbWluaXN0ZXJzIHRoZSBjb21wdXRlcnMsIGNhbiByZWFkIHRoZSByYXcgZGF0YS4iXSwicG9saWN5Ijp7ImlkIjoicG9sXzlMZFM3T2F3UW4wSnptc0l3MDVnTDAiLCJzaGEyNTYiOiI1MDk3YzYwMTdmOGNjODdkNzU5YWFmNmI2N2IxYTgyOWVmY2U2NmI0NTc3Y2UxYWNiMjAxZGQ2YTI1NDQzMjAyIn0sInByaXZhY3kiOnsiY2hhcmdlZF9yaG8iOiIwLjUiLCJlcHNpbG9uIjpbeyJkZWx0YSI6IjFlLTUiLCJlcHNpbG9uIjoiNC43MjkifSx7ImRlbHRhIjoiMWUtNiIsImVwc2lsb24iOiI1LjIyMiJ9LHsiZGVsdGEiOiIxZS05IiwiZXBzaWxvbiI6IjYuNDc1In1dLCJmdXJ0aGVyX3JobyI6IjAuNSIsInB1cmVfZXBzaWxvbiI6bnVsbCwicmhvIjoiMS8yIn0sInByb21pc2UiOnsiZ3VhcmFudGVlIjoiVGhlIGNvbnRlbnQgb2YgdGhpcyByZWxlYXNlIGlzIM-BLXpDRFAgZm9yIG5laWdoYm91cnMsIHdpdGggdGhlIHRvdGFsIM-BIGJlbG93LiBUaGUgZ3VhcmFudGVlIGlzIGNvbXB1dGF0aW9uYWw6IHRoZSBub2lzZSBjb21lcyBmcm9tIEFFUy0yNTYgaW4gY291bnRlciBtb2RlIHVuZGVyIGEga2V5IG9mIHRoZSBvcGVyYXRpbmcgc3lzdGVtLCBhbmQgdGhlIHByb21pc2UgaG9sZHMgYWdhaW5zdCB3aG9ldmVyIGNhbm5vdCB0ZWxsIHRoYXQgZnJvbSBjaGFuY2UuIiwibmVpZ2hib3VycyI6IlR3byBzaXR1YXRpb25zIGFyZSBuZWlnaGJvdXJzIGlmIHRoZSByZWNvcmRzIG9mIG9uZSB1bml0IGFyZSByZXBsYWNlZCBieSBhbnkgb3RoZXJzIGluIGV2ZXJ5IGRhdGFzZXQgb2YgdGhlIHBvcHVsYXRpb24sIHdoaWxlIHRoZSB1bml0cyB0aGF0IGJlbG9uZyB0byBpdCBzdGF5IHRoZSBzYW1lLiIsInVuaXQiOiJPbmUgdW5pdCBpcyBvbmUgcGF0aWVudCwgd2l0aCBldmVyeXRoaW5nIHJlY29yZGVkIGFib3V0IHRoYXQgcGF0aWVudCBpbiB0aGUgZGF0YXNldC4ifSwicmVxdWVzdCI6eyJhbGdvcml0aG0iOiJkcC1hcHZpIiwiY2hvc2VuIjpudWxsLCJoYWxmIjpudWxsLCJwYXJhbWV0ZXJzIjp7ImMiOjIsImMxIjowLjUsImMyIjowLCJjYWxpYnJhdGlvbiI6InRpZ2h0IiwiZGVsdGEiOjAuMSwiZHluYW1pY3MiOiJwZXJfc3RlcCIsInBlc3NpbWlzbSI6ImJlcm5zdGVpbiIsInJld2FyZCI6bnVsbCwic2hhcmVzIjpbMSwxLDFdfSwicHJpdmFjeSI6eyJyaG8iOiIwLjUifSwic2NoZW1hIjp7ImFjdGlvbnMiOnsiY291bnQiOjIsImxhYmVscyI6WyJ3YWl0IiwidHJlYXQiXX0sImhvcml6b24iOjMsIm1heF90cmFqZWN0b3JpZXNfcGVyX3VuaXQiOjEsInJld2FyZCI6eyJoaWdoIjoxLCJsb3ciOjB9LCJzdGF0ZXMiOnsiY291bnQiOjQsImtpbmQiOiJkaXNjcmV0ZSJ9fSwidW5pdHMiOjIwfSwic29mdHdhcmUiOnsibmFtZSI6ImRpc2NyZXRpb24iLCJ2ZXJzaW9uIjoiMC4xLjAifSwidmVyc2lvbiI6MX0", "protected": "eyJhbGciOiJFZERTQSIsImtpZCI6IkdHNlNHZ0d6YkxqWnpubXd6WVRmTkJkdUJ6TDN4QjQtQ2U5MXlKSWpVNmciLCJ0eXAiOiJkaXNjcmV0aW9uLWNlcnRpZmljYXRlK2p3cyJ9", "signature": "9G3j1jmTU8UiEpUnbmBOCqqLXEXDI8Ux-Px09pfAUVX6UfZiKEh70xuKPPCvYfat-r5seFpaqK-Ne6S7qIiPAw"}', '2026-11-17T03:07:48.597066+00:00');
INSERT INTO public.signing_keys VALUES ('GG6SGgGzbLjZznmwzYTfNBduBzL3xB4-Ce91yJIjU6g', '{"kty": "OKP", "crv": "Ed25519", "x": "KC0EI_6-lwnfLY5IU2Lmkf3NvAArwUhUMJ6Ul61GkRM", "kid": "GG6SGgGzbLjZznmwzYTfNBduBzL3xB4-Ce91yJIjU6g", "alg": "EdDSA", "use": "sig"}', '2026-11-17T03:07:35.098314+00:00');
INSERT INTO public.trainings VALUES ('tr_xTjDntZVlmFjuvOtTMJTxr', 'ds_JSURDW31XWjOXqgRYUqg7u', 'key_7iin49dOqXHXMScJ20Jj2H', 'released 1', 'gr_XIHqF3qkWKHEdQVUzBCBbQ', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'released', NULL, 4, 4, 1, '2026-11-17T03:07:46.483034+00:00', 1, '2026-11-17T03:08:03.579897+00:00', '2026-11-17T03:07:46.290617+00:00');
INSERT INTO public.trainings VALUES ('tr_5jXjBTvdZKLftWIGltc7z8', 'ds_1SUSbMPuzD8VpN1ZYU1bYZ', 'key_7iin49dOqXHXMScJ20Jj2H', 'running', 'gr_2J60llIaSn38bmladJ6ugG', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'running', NULL, 4, 0, 0, '2026-11-17T03:07:48.970600+00:00', 1, '2026-11-17T03:07:49.281703+00:00', '2026-11-17T03:07:48.737955+00:00');
INSERT INTO public.trainings VALUES ('tr_b4GJU7iFiOzvYLJdQKFc95', 'ds_USFoyeqUNAGR29M3LjvQWQ', 'key_7iin49dOqXHXMScJ20Jj2H', 'cancelled', 'gr_kmx6obQZqIwKHUUTbqIhMv', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'cancelled', NULL, 4, 0, 0, NULL, 1, NULL, '2026-11-17T03:07:58.391382+00:00');
INSERT INTO public.trainings VALUES ('tr_Phoj5pTfDaT0MWqot63FZU', 'ds_USFoyeqUNAGR29M3LjvQWQ', 'key_7iin49dOqXHXMScJ20Jj2H', 'queued', 'gr_kmx6obQZqIwKHUUTbqIhMv', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'queued', NULL, 4, 0, 0, NULL, 0, NULL, '2026-11-17T03:07:58.512738+00:00');
INSERT INTO public.trainings VALUES ('tr_caQ8lOYhoQNTKo0rf4y9qG', 'ds_USFoyeqUNAGR29M3LjvQWQ', 'key_7iin49dOqXHXMScJ20Jj2H', 'released 0', 'gr_kmx6obQZqIwKHUUTbqIhMv', 'dp-apvi', '{"algorithm":"dp-apvi","half":null,"parameters":{"c":2,"c1":0.5,"c2":0,"calibration":"tight","delta":0.1,"dynamics":"per_step","pessimism":"bernstein","reward":null,"shares":[1,1,1]},"privacy":{"rho":"0.5"}}', 500000000, 'released', NULL, 4, 4, 1, '2026-11-17T03:07:43.989488+00:00', 1, '2026-11-17T03:08:00.975758+00:00', '2026-11-17T03:07:38.445310+00:00');
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
