locals {
  subscriptions = { for name, s in var.subscriptions : name => merge(s, {
    route = coalesce(s.route, name)
    topic = s.topic == null ? google_pubsub_topic.input[name].id : s.topic
  }) }
  dead_letter = var.dead_letter != null && length(var.subscriptions) > 0

  # Names of all subscriptions here, which are known before they are made.
  subscription_names = concat(
    [for name in keys(var.subscriptions) : "${var.name}-${name}-push"],
    local.dead_letter ? ["${var.name}-dead-letter"] : [],
    var.rejected_topic ? ["${var.name}-rejected"] : [],
  )
}

resource "google_pubsub_topic" "input" {
  for_each = { for name, s in var.subscriptions : name => s if s.topic == null }

  project    = var.project_id
  name       = "${var.name}-${each.key}"
  labels     = var.labels
  depends_on = [google_project_service.api]
}

resource "google_pubsub_subscription" "push" {
  for_each = local.subscriptions

  project                    = var.project_id
  name                       = "${var.name}-${each.key}-push"
  topic                      = each.value.topic
  labels                     = var.labels
  ack_deadline_seconds       = var.ack_deadline_seconds
  message_retention_duration = "${var.message_retention_seconds}s"
  enable_message_ordering    = each.value.ordering
  filter                     = each.value.filter

  push_config {
    push_endpoint = "${local.service_url}/v1/routes/${each.value.route}/push"

    oidc_token {
      service_account_email = google_service_account.push.email
      audience              = local.audience
    }

    # The metadata say which message it is: without them nothing tells a redelivery.
    dynamic "no_wrapper" {
      for_each = each.value.unwrapped ? [true] : []
      content {
        write_metadata = true
      }
    }
  }

  retry_policy {
    minimum_backoff = "${var.retry.minimum_backoff_seconds}s"
    maximum_backoff = "${var.retry.maximum_backoff_seconds}s"
  }

  # It never expires, however long nothing comes.
  expiration_policy {
    ttl = ""
  }

  dynamic "dead_letter_policy" {
    for_each = var.dead_letter == null ? [] : [var.dead_letter]
    content {
      dead_letter_topic     = google_pubsub_topic.dead_letter[0].id
      max_delivery_attempts = dead_letter_policy.value.max_delivery_attempts
    }
  }

  depends_on = [google_cloud_run_v2_service_iam_member.push, google_service_account_iam_member.push_tokens]
}

# Pub/Sub's own dead letters. Its agent publishes them and acknowledges the original, and
# needs a role for either; without them the message goes round for ever.

resource "google_pubsub_topic" "dead_letter" {
  count = local.dead_letter ? 1 : 0

  project    = var.project_id
  name       = "${var.name}-dead-letter"
  labels     = var.labels
  depends_on = [google_project_service.api]
}

# A topic keeps nothing by itself.
resource "google_pubsub_subscription" "dead_letter" {
  count = local.dead_letter ? 1 : 0

  project                    = var.project_id
  name                       = "${var.name}-dead-letter"
  topic                      = google_pubsub_topic.dead_letter[0].id
  labels                     = var.labels
  message_retention_duration = "2678400s"
  ack_deadline_seconds       = 60
  expiration_policy {
    ttl = ""
  }
}

resource "google_pubsub_topic_iam_member" "dead_letter_publisher" {
  count = local.dead_letter ? 1 : 0

  project = var.project_id
  topic   = google_pubsub_topic.dead_letter[0].name
  role    = "roles/pubsub.publisher"
  member  = local.pubsub_agent
}

resource "google_pubsub_subscription_iam_member" "dead_letter_subscriber" {
  for_each = var.dead_letter == null ? {} : local.subscriptions

  project      = var.project_id
  subscription = google_pubsub_subscription.push[each.key].name
  role         = "roles/pubsub.subscriber"
  member       = local.pubsub_agent
}

# The server's dead letters: records that a route with onReject: deadLetter refuses.

resource "google_pubsub_topic" "rejected" {
  count = var.rejected_topic ? 1 : 0

  project    = var.project_id
  name       = "${var.name}-rejected"
  labels     = var.labels
  depends_on = [google_project_service.api]
}

resource "google_pubsub_subscription" "rejected" {
  count = var.rejected_topic ? 1 : 0

  project                    = var.project_id
  name                       = "${var.name}-rejected"
  topic                      = google_pubsub_topic.rejected[0].id
  labels                     = var.labels
  message_retention_duration = "2678400s"
  ack_deadline_seconds       = 60
  expiration_policy {
    ttl = ""
  }
}

resource "google_pubsub_topic_iam_member" "rejected" {
  count = var.rejected_topic ? 1 : 0

  project = var.project_id
  topic   = google_pubsub_topic.rejected[0].name
  role    = "roles/pubsub.publisher"
  member  = google_service_account.runtime.member
}
