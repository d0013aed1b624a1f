# Where

variable "project_id" {
  description = "Project of everything that is made."
  type        = string
  nullable    = false
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id: 6 to 30 lower-case letters, digits and hyphens, a letter first, no hyphen last."
  }
}

variable "region" {
  description = "Region of the service and of the image repository."
  type        = string
  nullable    = false
  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region: a region such as europe-west1, not a zone."
  }
}

variable "name" {
  description = "Name of the service, and the beginning of all other names."
  type        = string
  nullable    = false
  default     = "pushsink"
  validation {
    # A service account's id has at most 30 characters, of which "-runtime" are 8.
    condition     = can(regex("^[a-z]([a-z0-9-]{0,20}[a-z0-9])?$", var.name))
    error_message = "name: 1 to 22 lower-case letters, digits and hyphens, a letter first, no hyphen last."
  }
}

variable "labels" {
  description = "Labels of what can be labelled."
  type        = map(string)
  nullable    = false
  default     = {}
  validation {
    condition     = alltrue([for k, v in var.labels : can(regex("^[a-z][a-z0-9_-]{0,62}$", k)) && can(regex("^[a-z0-9_-]{0,63}$", v))])
    error_message = "labels: keys and values of up to 63 lower-case letters, digits, _ and -, a letter first in keys."
  }
}

variable "enable_apis" {
  description = "Enable the APIs that are used. They stay enabled after a destroy."
  type        = bool
  nullable    = false
  default     = true
}

# What runs

variable "image" {
  description = "Image to run, with a tag or a digest. null = what the service runs already, so that an apply does not undo a deployment by Cloud Build; the first apply has to name one."
  type        = string
  default     = null
  validation {
    condition     = var.image == null || can(regex("^[a-z0-9.-]+(:[0-9]+)?/[^\\s:@]+(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}|@sha256:[0-9a-f]{64})$", var.image))
    error_message = "image: REGISTRY/PATH:TAG or REGISTRY/PATH@sha256:DIGEST."
  }
  validation {
    condition     = var.image == null || !endswith(coalesce(var.image, "-"), ":latest")
    error_message = "image: latest names another image tomorrow, and Cloud Run resolves a tag once; name a version or a digest."
  }
}

variable "routes_secret" {
  description = "Secret Manager secret that holds the routes file, in the same project, and its version. A number, so that a change is a new revision; with latest each instance reads what is newest when it starts."
  type = object({
    secret  = string
    version = string
  })
  nullable = false
  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,255}$", var.routes_secret.secret))
    error_message = "routes_secret.secret: the secret's id, 1 to 255 letters, digits, _ and -."
  }
  validation {
    condition     = can(regex("^([1-9][0-9]*|latest)$", var.routes_secret.version))
    error_message = "routes_secret.version: a version's number, or latest."
  }
}

variable "options" {
  description = "Options of the server by name, without the prefix PUSHSINK_. Those that have a variable of their own here are refused."
  type        = map(string)
  nullable    = false
  default     = {}
  validation {
    condition     = alltrue([for name in keys(var.options) : contains(keys(local.server_options), name)])
    error_message = "options: the server has no ${join(", ", [for name in keys(var.options) : name if !contains(keys(local.server_options), name)])}; names are written without PUSHSINK_."
  }
  validation {
    condition     = length(setintersection(keys(var.options), local.owned_options)) == 0
    error_message = "options: ${join(", ", setintersection(keys(var.options), local.owned_options))} follow from variables of this module."
  }
  validation {
    # A bound that an option does not have is null, which compares with nothing.
    condition = alltrue([for name, value in var.options : can(regex("^(-1|[0-9]+)$", value)) && (
      try(tonumber(value) == local.server_options[name].or, false) ||
      (try(tonumber(value) >= local.server_options[name].min, true) && try(tonumber(value) <= local.server_options[name].max, true)))
    if try(local.server_options[name].kind, "") == "integer"])
    error_message = "options: whole numbers within the server's bounds (server -h), which are in options.json."
  }
  validation {
    condition     = alltrue([for name, value in var.options : can(regex("^(0|([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+)$", value)) if try(local.server_options[name].kind, "") == "duration"])
    error_message = "options: a duration needs a unit: 500ms, 8s, 1h30m."
  }
  validation {
    condition     = alltrue([for name, value in var.options : contains(["true", "false"], value) if try(local.server_options[name].kind, "") == "bool"])
    error_message = "options: true or false."
  }
  validation {
    condition = alltrue([for name, value in var.options :
      alltrue([for word in split(",", value) : contains(local.server_options[name].words, trimspace(word))])
    if try(local.server_options[name].words, null) != null])
    error_message = "options: a word that the server does not know (server -h)."
  }
  validation {
    condition     = alltrue([for value in values(var.options) : trimspace(value) == value && value != ""])
    error_message = "options: no empty values and no spaces around them; leave out what is to keep its default."
  }
}

variable "auth" {
  description = "Who checks the caller's token. cloudrun: the platform, by roles/run.invoker. oidc: the server itself, by audience and e-mail; the platform then lets everybody through to it."
  type        = string
  nullable    = false
  default     = "cloudrun"
  validation {
    condition     = contains(["cloudrun", "oidc"], var.auth)
    error_message = "auth: cloudrun or oidc. A service that nobody guards is not for this module."
  }
}

variable "callers" {
  description = "Who may send besides Pub/Sub, for instance batches: serviceAccount:, user: and group: members; with auth = oidc service accounts only."
  type        = list(string)
  nullable    = false
  default     = []
  validation {
    condition     = alltrue([for m in var.callers : can(regex("^(serviceAccount|user|group):[^@\\s]+@[^@\\s]+$", m))])
    error_message = "callers: serviceAccount:, user: or group: and an address; allUsers and allAuthenticatedUsers are not taken."
  }
  validation {
    condition     = var.auth != "oidc" || alltrue([for m in var.callers : startswith(m, "serviceAccount:")])
    error_message = "callers: with auth = oidc the server knows service accounts by their e-mail, and no groups."
  }
}

variable "ingress" {
  description = "Where requests may come from. Pub/Sub of the same project counts as internal."
  type        = string
  nullable    = false
  default     = "INGRESS_TRAFFIC_ALL"
}

# How large

variable "cpu" {
  description = "CPUs of an instance."
  type        = number
  nullable    = false
  default     = 1
  validation {
    condition     = contains([1, 2, 4, 6, 8], var.cpu)
    error_message = "cpu: 1, 2, 4, 6 or 8; less than one would take one request at a time."
  }
}

variable "memory_mib" {
  description = "Memory of an instance in MiB. It has to hold what the server's byte bounds admit."
  type        = number
  nullable    = false
  default     = 1024
  validation {
    condition     = var.memory_mib == floor(var.memory_mib) && var.memory_mib >= 512 && var.memory_mib <= 32768
    error_message = "memory_mib: a whole number, 512 to 32768."
  }
  validation {
    condition     = var.memory_mib <= lookup({ 1 = 4096, 2 = 8192, 4 = 16384, 6 = 24576, 8 = 32768 }, var.cpu, 32768) && var.memory_mib >= lookup({ 4 = 2048, 6 = 4096, 8 = 4096 }, var.cpu, 512)
    error_message = "memory_mib: Cloud Run takes up to 4096 with 1 CPU, 8192 with 2, 2048 to 16384 with 4, 4096 to 24576 with 6 and 4096 to 32768 with 8."
  }
  validation {
    condition     = var.memory_mib >= local.memory_needed_mib
    error_message = "memory_mib: BODY_BYTES_IN_FLIGHT and the sinks' MAX_IN_FLIGHT_BYTES admit so much that at least ${local.memory_needed_mib} are needed; lower them or raise this."
  }
}

variable "concurrency" {
  description = "Requests that one instance has open at a time. Many are good: those that wait together are written together."
  type        = number
  nullable    = false
  default     = 80
  validation {
    condition     = var.concurrency == floor(var.concurrency) && var.concurrency >= 1 && var.concurrency <= 1000
    error_message = "concurrency: a whole number, 1 to 1000."
  }
}

variable "min_instances" {
  description = "Instances that are kept when nothing comes. 0 = none: the first message after a pause waits for a start."
  type        = number
  nullable    = false
  default     = 0
  validation {
    condition     = var.min_instances == floor(var.min_instances) && var.min_instances >= 0 && var.min_instances <= 1000
    error_message = "min_instances: a whole number, 0 to 1000."
  }
}

variable "max_instances" {
  description = "Most instances. It bounds what the sinks get: each instance has the writer's caps of its own."
  type        = number
  nullable    = false
  default     = 10
  validation {
    condition     = var.max_instances == floor(var.max_instances) && var.max_instances >= 1 && var.max_instances <= 1000
    error_message = "max_instances: a whole number, 1 to 1000."
  }
  validation {
    condition     = var.max_instances >= var.min_instances
    error_message = "max_instances: at least min_instances (${var.min_instances})."
  }
}

variable "cpu_idle" {
  description = "true = CPU only while a request is open, which is when the server writes. The collector wants false."
  type        = bool
  nullable    = false
  default     = true
  validation {
    condition     = !(var.cpu_idle && var.collector != null)
    error_message = "cpu_idle: the collector scrapes between requests and needs CPU then; set cpu_idle = false."
  }
}

variable "h2c" {
  description = "Speak HTTP/2 to the container. It lifts the platform's limit of 32 MiB a request."
  type        = bool
  nullable    = false
  default     = false
}

variable "readiness_probe" {
  description = "Take an instance out of the traffic while its sink does not answer. A preview of Cloud Run, so the service's launch stage is BETA with it."
  type        = bool
  nullable    = false
  default     = true
}

variable "deletion_protection" {
  description = "Refuse to destroy the service, its tables and its database."
  type        = bool
  nullable    = false
  default     = true
}

# How long

variable "ack_deadline_seconds" {
  description = "Ack deadline of the subscriptions, told to the server as ACK_DEADLINE: how long Pub/Sub waits for an answer."
  type        = number
  nullable    = false
  default     = 10
  validation {
    condition     = var.ack_deadline_seconds == floor(var.ack_deadline_seconds) && var.ack_deadline_seconds >= 10 && var.ack_deadline_seconds <= 600
    error_message = "ack_deadline_seconds: a whole number, 10 to 600."
  }
}

variable "request_timeout_seconds" {
  description = "A push is answered within this (REQUEST_TIMEOUT)."
  type        = number
  nullable    = false
  default     = 8
  validation {
    condition     = var.request_timeout_seconds == floor(var.request_timeout_seconds) && var.request_timeout_seconds >= 1
    error_message = "request_timeout_seconds: a whole number, 1 or more."
  }
  validation {
    condition     = var.request_timeout_seconds < var.ack_deadline_seconds
    error_message = "request_timeout_seconds: below ack_deadline_seconds (${var.ack_deadline_seconds}), or the answer acknowledges nothing."
  }
}

variable "batch_timeout_seconds" {
  description = "A batch of records is answered within this (BATCH_TIMEOUT)."
  type        = number
  nullable    = false
  default     = 60
  validation {
    condition     = var.batch_timeout_seconds == floor(var.batch_timeout_seconds) && var.batch_timeout_seconds >= 1 && var.batch_timeout_seconds <= 3590
    error_message = "batch_timeout_seconds: a whole number, 1 to 3590: Cloud Run ends a request after 3600."
  }
}

# What comes in

variable "subscriptions" {
  description = "Push subscriptions by name. route: the route it feeds (default: its name). topic: an existing topic, projects/P/topics/T (default: one is made). unwrapped: the payload is the body, the rest are headers. ordering: a key's messages one after the other. filter: of attributes."
  type = map(object({
    route     = optional(string)
    topic     = optional(string)
    unwrapped = optional(bool, false)
    ordering  = optional(bool, false)
    filter    = optional(string)
  }))
  nullable = false
  default  = {}
  validation {
    condition     = alltrue([for name in keys(var.subscriptions) : can(regex("^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", name))])
    error_message = "subscriptions: names of up to 63 lower-case letters, digits and hyphens, a letter first, no hyphen last."
  }
  validation {
    condition     = alltrue([for name, s in var.subscriptions : can(regex("^[A-Za-z0-9][-_.A-Za-z0-9]{0,62}$", coalesce(s.route, name)))])
    error_message = "subscriptions: a route's name has up to 63 letters, digits, -, _ and ., a letter or digit first."
  }
  validation {
    condition     = alltrue([for s in values(var.subscriptions) : s.topic == null || can(regex("^projects/[^/\\s]+/topics/[A-Za-z][-A-Za-z0-9._~+%]{2,254}$", s.topic))])
    error_message = "subscriptions: topic is projects/PROJECT/topics/TOPIC."
  }
  validation {
    condition     = alltrue([for s in values(var.subscriptions) : s.filter == null || (length(coalesce(s.filter, " ")) <= 256 && trimspace(coalesce(s.filter, " ")) != "")])
    error_message = "subscriptions: a filter has 1 to 256 characters."
  }
}

variable "retry" {
  description = "Backoff of Pub/Sub after an answer that does not acknowledge, in seconds."
  type = object({
    minimum_backoff_seconds = optional(number, 10)
    maximum_backoff_seconds = optional(number, 600)
  })
  nullable = false
  default  = {}
  validation {
    condition     = alltrue([for s in values(var.retry) : s >= 0 && s <= 600])
    error_message = "retry: backoffs are 0 to 600 seconds."
  }
  validation {
    condition     = var.retry.minimum_backoff_seconds <= var.retry.maximum_backoff_seconds
    error_message = "retry: minimum_backoff_seconds is at most maximum_backoff_seconds."
  }
}

variable "message_retention_seconds" {
  description = "How long a subscription keeps what was not acknowledged: how long an outage may last."
  type        = number
  nullable    = false
  default     = 604800
  validation {
    condition     = var.message_retention_seconds == floor(var.message_retention_seconds) && var.message_retention_seconds >= 600 && var.message_retention_seconds <= 2678400
    error_message = "message_retention_seconds: a whole number, 600 (10 minutes) to 2678400 (31 days)."
  }
}

variable "dead_letter" {
  description = "Pub/Sub's own net below the routes' onReject: after so many deliveries a message goes to a topic of its own, whatever the reason, outages included. null = none."
  type = object({
    max_delivery_attempts = optional(number, 100)
  })
  default = {}
  validation {
    condition     = var.dead_letter == null || (try(var.dead_letter.max_delivery_attempts, 5) >= 5 && try(var.dead_letter.max_delivery_attempts, 5) <= 100 && try(floor(var.dead_letter.max_delivery_attempts) == var.dead_letter.max_delivery_attempts, true))
    error_message = "dead_letter.max_delivery_attempts: a whole number, 5 to 100."
  }
}

variable "rejected_topic" {
  description = "Make a topic, and a subscription that keeps it, for routes with onReject: deadLetter. The routes file names it (output rejected_topic)."
  type        = bool
  nullable    = false
  default     = false
}

# Where it goes

variable "bigtable" {
  description = "Bigtable instance that is written to. tables are made, with the GC rules of their families (of max_versions and max_age the mode says which must hold; none = everything is kept); existing_tables are only granted. create_tables grants a role on the whole instance that may make tables, for routes with create: ifNeeded."
  type = object({
    instance        = string
    project         = optional(string)
    app_profile     = optional(string)
    existing_tables = optional(set(string), [])
    create_tables   = optional(object({ role = optional(string, "roles/bigtable.admin") }))
    tables = optional(map(object({
      split_keys              = optional(list(string))
      change_stream_retention = optional(string)
      families = map(object({
        max_versions = optional(number)
        max_age      = optional(string)
        mode         = optional(string, "union")
      }))
    })), {})
  })
  default = null
  validation {
    condition     = var.bigtable == null || can(regex("^[a-z]([-a-z0-9]{0,31}[a-z0-9])?$", var.bigtable.instance))
    error_message = "bigtable.instance: up to 33 lower-case letters, digits and hyphens, a letter first."
  }
  validation {
    condition     = alltrue([for name in concat(keys(try(var.bigtable.tables, {})), tolist(try(var.bigtable.existing_tables, []))) : can(regex("^[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}$", name))])
    error_message = "bigtable: a table's name has up to 50 letters, digits, -, _ and ., no - or . first."
  }
  validation {
    condition     = alltrue([for t in values(try(var.bigtable.tables, {})) : length(t.families) > 0 && alltrue([for f in keys(t.families) : can(regex("^[-_.a-zA-Z0-9]{1,64}$", f))])])
    error_message = "bigtable.tables: at least one family; its name has up to 64 letters, digits, -, _ and .."
  }
  validation {
    condition = alltrue(flatten([for t in values(try(var.bigtable.tables, {})) : [for f in values(t.families) :
      (f.max_versions == null || try(f.max_versions >= 1 && f.max_versions == floor(f.max_versions), false)) &&
      (f.max_age == null || can(regex("^[1-9][0-9]*(ms|s|m|h)$", f.max_age))) &&
    contains(["union", "intersection"], f.mode)]]))
    error_message = "bigtable.tables: max_versions is 1 or more, max_age a duration such as 168h, mode union (either may go) or intersection (only what both let go)."
  }
  validation {
    condition     = alltrue([for t in values(try(var.bigtable.tables, {})) : t.change_stream_retention == null || try(tonumber(trimsuffix(t.change_stream_retention, "h")) >= 24 && tonumber(trimsuffix(t.change_stream_retention, "h")) <= 168, false)])
    error_message = "bigtable.tables: change_stream_retention is 24h to 168h."
  }
  validation {
    condition     = length(setintersection(keys(try(var.bigtable.tables, {})), try(var.bigtable.existing_tables, []))) == 0
    error_message = "bigtable: a table is either made or existing."
  }
  validation {
    condition     = var.bigtable == null || length(try(var.bigtable.tables, {})) + length(try(var.bigtable.existing_tables, [])) > 0 || try(var.bigtable.create_tables, null) != null
    error_message = "bigtable: name tables, existing_tables or create_tables, or nothing may be written."
  }
}

variable "spanner" {
  description = "Spanner database that is written to. ddl: the database is made with these statements, those of server ddl among them; null = it is there already."
  type = object({
    instance                 = string
    database                 = string
    project                  = optional(string)
    ddl                      = optional(list(string))
    dialect                  = optional(string, "GOOGLE_STANDARD_SQL")
    version_retention_period = optional(string)
  })
  default = null
  validation {
    condition     = var.spanner == null || (can(regex("^[a-z][-a-z0-9]{0,62}[a-z0-9]$", var.spanner.instance)) && can(regex("^[a-z][a-z0-9_-]{0,28}[a-z0-9]$", var.spanner.database)))
    error_message = "spanner: instance has 2 to 64 lower-case letters, digits and hyphens, database 2 to 30 with _ as well, a letter first, no hyphen last."
  }
  validation {
    condition     = var.spanner == null || contains(["GOOGLE_STANDARD_SQL", "POSTGRESQL"], try(var.spanner.dialect, ""))
    error_message = "spanner.dialect: GOOGLE_STANDARD_SQL or POSTGRESQL."
  }
  validation {
    condition     = alltrue([for s in try(var.spanner.ddl == null ? [] : var.spanner.ddl, []) : trimspace(s) != "" && !endswith(trimspace(s), ";")])
    error_message = "spanner.ddl: one statement an item, without the semicolon."
  }
  validation {
    condition     = try(var.spanner.version_retention_period, null) == null || can(regex("^([1-7]d|([1-9]|[1-9][0-9]|1[0-5][0-9]|16[0-8])h)$", var.spanner.version_retention_period))
    error_message = "spanner.version_retention_period: 1h to 7d."
  }
}

# Looking at it

variable "collector" {
  description = "Managed Service for Prometheus beside the server: a container that scrapes its metrics. The runtime account needs roles/monitoring.metricWriter on the project for it, which this module does not grant: Monitoring has nothing smaller (output metric_writer_grant). null = none."
  type = object({
    image = optional(string, "us-docker.pkg.dev/cloud-ops-agents-artifacts/cloud-run-gmp-sidecar/cloud-run-gmp-sidecar:1.3.0")
  })
  default = null
}

variable "alerts" {
  description = "Alert policies, and whom they tell: e-mail addresses, or channels that are there already. Rejections, streak and late records need the collector. null = none."
  type = object({
    emails                 = optional(set(string), [])
    channels               = optional(list(string), [])
    server_error_ratio     = optional(number, 0.05)
    p99_milliseconds       = optional(number, 2000)
    oldest_unacked_seconds = optional(number, 600)
    rejections             = optional(number, 0)
    streak                 = optional(number, 10)
  })
  default = {}
  validation {
    condition     = alltrue([for e in try(var.alerts.emails, []) : can(regex("^[^@\\s]+@[^@\\s]+$", e))])
    error_message = "alerts.emails: addresses."
  }
  validation {
    condition     = alltrue([for c in try(var.alerts.channels, []) : can(regex("^projects/[^/]+/notificationChannels/[0-9]+$", c))])
    error_message = "alerts.channels: projects/PROJECT/notificationChannels/NUMBER."
  }
  validation {
    condition     = try(var.alerts.server_error_ratio > 0 && var.alerts.server_error_ratio < 1, var.alerts == null)
    error_message = "alerts.server_error_ratio: between 0 and 1."
  }
  validation {
    condition     = try(var.alerts.p99_milliseconds > 0 && var.alerts.oldest_unacked_seconds > 0 && var.alerts.rejections >= 0 && var.alerts.streak >= 1, var.alerts == null)
    error_message = "alerts: p99_milliseconds and oldest_unacked_seconds are above 0, rejections 0 or more in ten minutes, streak 1 or more."
  }
}

variable "dashboard" {
  description = "Make a dashboard. The tiles of the server's own metrics need the collector."
  type        = bool
  nullable    = false
  default     = true
}

# Images

variable "repository" {
  description = "Make an Artifact Registry repository of this id for images. keep: how many versions of each are kept. null = none."
  type = object({
    id   = string
    keep = optional(number, 10)
  })
  default = null
  validation {
    condition     = var.repository == null || can(regex("^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", var.repository.id))
    error_message = "repository.id: up to 63 lower-case letters, digits and hyphens, a letter first, no hyphen last."
  }
  validation {
    condition     = var.repository == null || try(var.repository.keep >= 1 && var.repository.keep == floor(var.repository.keep), false)
    error_message = "repository.keep: 1 or more."
  }
}
