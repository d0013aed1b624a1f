# What the provider takes and the service, or the platform, refuses: each bound, and one past it.

mock_provider "google" {}

override_data {
  target = data.google_project.this
  values = { number = "123456789012" }
}

variables {
  project_id    = "my-project"
  region        = "europe-west1"
  image         = "europe-west1-docker.pkg.dev/my-project/images/pushsink:v1.2.3"
  routes_secret = { secret = "pushsink-routes", version = "3" }
  subscriptions = { telemetry = {} }
  bigtable      = { instance = "iot", existing_tables = ["readings"] }
}

run "lower_bounds_are_taken" {
  command = plan
  variables {
    name                      = "a"
    ack_deadline_seconds      = 10
    request_timeout_seconds   = 9
    batch_timeout_seconds     = 1
    concurrency               = 1
    min_instances             = 0
    max_instances             = 1
    memory_mib                = 512
    message_retention_seconds = 600
    retry                     = { minimum_backoff_seconds = 0, maximum_backoff_seconds = 0 }
    dead_letter               = { max_delivery_attempts = 5 }
    routes_secret             = { secret = "r", version = "1" }
  }
}

run "upper_bounds_are_taken" {
  command = plan
  variables {
    name                      = "abcdefghijklmnopqrstuv"
    ack_deadline_seconds      = 600
    request_timeout_seconds   = 599
    batch_timeout_seconds     = 3590
    concurrency               = 1000
    min_instances             = 1000
    max_instances             = 1000
    cpu                       = 8
    memory_mib                = 32768
    message_retention_seconds = 2678400
    retry                     = { minimum_backoff_seconds = 600, maximum_backoff_seconds = 600 }
    dead_letter               = { max_delivery_attempts = 100 }
    routes_secret             = { secret = "r", version = "latest" }
    image                     = "registry.example.com:5000/pushsink@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  }
}

run "below_the_lower_bounds" {
  command = plan
  variables {
    project_id                = "short"
    name                      = ""
    ack_deadline_seconds      = 9
    batch_timeout_seconds     = 0
    concurrency               = 0
    min_instances             = -1
    message_retention_seconds = 599
    dead_letter               = { max_delivery_attempts = 4 }
    region                    = "europe-west1-b"
    cpu                       = 0.5
    labels                    = { Team = "a" }
  }
  expect_failures = [var.project_id, var.name, var.ack_deadline_seconds, var.batch_timeout_seconds, var.concurrency, var.min_instances, var.message_retention_seconds, var.dead_letter, var.region, var.cpu, var.labels]
}

run "above_the_upper_bounds" {
  command = plan
  variables {
    name                      = "abcdefghijklmnopqrstuvw"
    ack_deadline_seconds      = 601
    batch_timeout_seconds     = 3591
    concurrency               = 1001
    min_instances             = 1001
    message_retention_seconds = 2678401
    dead_letter               = { max_delivery_attempts = 101 }
    cpu                       = 16
  }
  expect_failures = [var.name, var.ack_deadline_seconds, var.batch_timeout_seconds, var.concurrency, var.min_instances, var.message_retention_seconds, var.dead_letter, var.cpu]
}

run "ACK_03_request_timeout_is_below_the_ack_deadline" {
  command = plan
  variables {
    ack_deadline_seconds    = 60
    request_timeout_seconds = 60
  }
  expect_failures = [var.request_timeout_seconds]
}

run "fractions_are_no_whole_numbers" {
  command = plan
  variables {
    ack_deadline_seconds      = 10.5
    concurrency               = 1.5
    max_instances             = 1.5
    message_retention_seconds = 600.5
    memory_mib                = 1024.5
  }
  expect_failures = [var.ack_deadline_seconds, var.concurrency, var.max_instances, var.message_retention_seconds, var.memory_mib]
}

run "more_instances_kept_than_allowed" {
  command = plan
  variables {
    min_instances = 3
    max_instances = 2
  }
  expect_failures = [var.max_instances]
}

run "memory_holds_what_is_admitted" {
  command = plan
  variables {
    memory_mib = 1024
    options    = { BODY_BYTES_IN_FLIGHT = "536870912" }
  }
  expect_failures = [var.memory_mib]
}

run "memory_of_both_sinks" {
  command = plan
  variables {
    memory_mib = 512
    spanner    = { instance = "shop-1", database = "shop" }
  }
  expect_failures = [var.memory_mib]
}

run "memory_of_one_cpu" {
  command = plan
  variables {
    cpu        = 1
    memory_mib = 4097
  }
  expect_failures = [var.memory_mib]
}

run "memory_of_four_cpus" {
  command = plan
  variables {
    cpu        = 4
    memory_mib = 1024
  }
  expect_failures = [var.memory_mib]
}

run "collector_needs_cpu_between_requests" {
  command = plan
  variables {
    collector = {}
  }
  expect_failures = [var.cpu_idle]
}

run "image_without_a_version" {
  command = plan
  variables {
    image = "europe-west1-docker.pkg.dev/my-project/images/pushsink"
  }
  expect_failures = [var.image]
}

run "image_latest" {
  command = plan
  variables {
    image = "europe-west1-docker.pkg.dev/my-project/images/pushsink:latest"
  }
  expect_failures = [var.image]
}

run "routes_secret" {
  command = plan
  variables {
    routes_secret = { secret = "projects/p/secrets/routes", version = "0" }
  }
  expect_failures = [var.routes_secret]
}

run "nobody_is_everybody" {
  command = plan
  variables {
    callers = ["allUsers"]
  }
  expect_failures = [var.callers]
}

run "nor_all_who_have_an_account" {
  command = plan
  variables {
    callers = ["allAuthenticatedUsers"]
  }
  expect_failures = [var.callers]
}

run "oidc_knows_no_groups" {
  command = plan
  variables {
    auth    = "oidc"
    callers = ["group:team@example.com"]
  }
  expect_failures = [var.callers]
}

run "auth_none" {
  command = plan
  variables {
    auth = "none"
  }
  expect_failures = [var.auth]
}

run "option_that_is_none" {
  command = plan
  variables {
    options = { WRITER_MAX_BATCHSIZE = "1" }
  }
  expect_failures = [var.options]
}

run "option_with_its_prefix" {
  command = plan
  variables {
    options = { PUSHSINK_LOG_LEVEL = "info" }
  }
  expect_failures = [var.options]
}

run "option_that_has_a_variable" {
  command = plan
  variables {
    options = { ACK_DEADLINE = "20s" }
  }
  expect_failures = [var.options]
}

run "option_below_its_bound" {
  command = plan
  variables {
    options = { WRITER_MAX_IN_FLIGHT_REQUESTS = "0" }
  }
  expect_failures = [var.options]
}

run "option_above_its_bound" {
  command = plan
  variables {
    options = { BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD = "20000" }
  }
  expect_failures = [var.options]
}

run "option_that_is_no_number" {
  command = plan
  variables {
    options = { BIGTABLE_POOL_SIZE = "4.0" }
  }
  expect_failures = [var.options]
}

run "option_without_a_unit" {
  command = plan
  variables {
    options = { IDLE_TIMEOUT = "120" }
  }
  expect_failures = [var.options]
}

run "option_that_is_no_bool" {
  command = plan
  variables {
    options = { BIGTABLE_PER_DESTINATION_METRICS = "yes" }
  }
  expect_failures = [var.options]
}

run "option_of_other_words" {
  command = plan
  variables {
    options = { EXPOSE = "rows,everything" }
  }
  expect_failures = [var.options]
}

run "option_that_is_empty" {
  command = plan
  variables {
    options = { AUTH_ISSUERS = "" }
  }
  expect_failures = [var.options]
}

run "backoff_of_more_than_ten_minutes" {
  command = plan
  variables {
    retry = { maximum_backoff_seconds = 601 }
  }
  expect_failures = [var.retry]
}

run "backoffs_the_wrong_way_round" {
  command = plan
  variables {
    retry = { minimum_backoff_seconds = 60, maximum_backoff_seconds = 30 }
  }
  expect_failures = [var.retry]
}

run "subscription_of_another_name" {
  command = plan
  variables {
    subscriptions = { Telemetry = {} }
  }
  expect_failures = [var.subscriptions]
}

run "subscription_of_no_route" {
  command = plan
  variables {
    subscriptions = { telemetry = { route = "a/b" } }
  }
  expect_failures = [var.subscriptions]
}

run "subscription_of_no_topic" {
  command = plan
  variables {
    subscriptions = { telemetry = { topic = "telemetry" } }
  }
  expect_failures = [var.subscriptions]
}

run "subscription_of_an_empty_filter" {
  command = plan
  variables {
    subscriptions = { telemetry = { filter = " " } }
  }
  expect_failures = [var.subscriptions]
}

run "bigtable_instance" {
  command = plan
  variables {
    bigtable = { instance = "projects/p/instances/i", existing_tables = ["t"] }
  }
  expect_failures = [var.bigtable]
}

run "bigtable_table" {
  command = plan
  variables {
    bigtable = { instance = "iot", existing_tables = ["-t"] }
  }
  expect_failures = [var.bigtable]
}

run "bigtable_without_tables" {
  command = plan
  variables {
    bigtable = { instance = "iot" }
  }
  expect_failures = [var.bigtable]
}

run "bigtable_table_without_families" {
  command = plan
  variables {
    bigtable = { instance = "iot", tables = { t = { families = {} } } }
  }
  expect_failures = [var.bigtable]
}

run "bigtable_family" {
  command = plan
  variables {
    bigtable = { instance = "iot", tables = { t = { families = { "a b" = {} } } } }
  }
  expect_failures = [var.bigtable]
}

run "gc_of_no_version" {
  command = plan
  variables {
    bigtable = { instance = "iot", tables = { t = { families = { f = { max_versions = 0 } } } } }
  }
  expect_failures = [var.bigtable]
}

run "gc_of_no_age" {
  command = plan
  variables {
    bigtable = { instance = "iot", tables = { t = { families = { f = { max_age = "0h" } } } } }
  }
  expect_failures = [var.bigtable]
}

run "gc_without_a_unit" {
  command = plan
  variables {
    bigtable = { instance = "iot", tables = { t = { families = { f = { max_age = "168" } } } } }
  }
  expect_failures = [var.bigtable]
}

run "gc_of_another_mode" {
  command = plan
  variables {
    bigtable = { instance = "iot", tables = { t = { families = { f = { max_versions = 1, max_age = "1h", mode = "any" } } } } }
  }
  expect_failures = [var.bigtable]
}

run "change_stream_of_an_hour" {
  command = plan
  variables {
    bigtable = { instance = "iot", tables = { t = { change_stream_retention = "1h", families = { f = {} } } } }
  }
  expect_failures = [var.bigtable]
}

run "table_made_and_existing" {
  command = plan
  variables {
    bigtable = { instance = "iot", existing_tables = ["t"], tables = { t = { families = { f = {} } } } }
  }
  expect_failures = [var.bigtable]
}

run "spanner_database" {
  command = plan
  variables {
    spanner = { instance = "shop-1", database = "projects/p/instances/i/databases/d" }
  }
  expect_failures = [var.spanner]
}

run "spanner_dialect" {
  command = plan
  variables {
    spanner = { instance = "shop-1", database = "shop", dialect = "MYSQL" }
  }
  expect_failures = [var.spanner]
}

run "ddl_with_a_semicolon" {
  command = plan
  variables {
    spanner = { instance = "shop-1", database = "shop", ddl = ["CREATE TABLE T (I INT64) PRIMARY KEY (I);"] }
  }
  expect_failures = [var.spanner]
}

run "spanner_retention" {
  command = plan
  variables {
    spanner = { instance = "shop-1", database = "shop", version_retention_period = "8d" }
  }
  expect_failures = [var.spanner]
}

run "alerts_ratio" {
  command = plan
  variables {
    alerts = { server_error_ratio = 1 }
  }
  expect_failures = [var.alerts]
}

run "alerts_address" {
  command = plan
  variables {
    alerts = { emails = ["ops"] }
  }
  expect_failures = [var.alerts]
}

run "alerts_channel" {
  command = plan
  variables {
    alerts = { channels = ["1"] }
  }
  expect_failures = [var.alerts]
}

run "alerts_streak" {
  command = plan
  variables {
    alerts = { streak = 0 }
  }
  expect_failures = [var.alerts]
}

run "repository" {
  command = plan
  variables {
    repository = { id = "Images", keep = 0 }
  }
  expect_failures = [var.repository]
}

run "no_instance_at_all" {
  command = plan
  variables {
    max_instances = 0
  }
  expect_failures = [var.max_instances]
}

run "more_instances_than_the_platform_has" {
  command = plan
  variables {
    max_instances = 1001
  }
  expect_failures = [var.max_instances]
}
