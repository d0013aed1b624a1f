# The platform's own metrics (Cloud Run, Pub/Sub) are always there. The server's come by
# the collector; their alerts are made with it.

locals {
  channels = var.alerts == null ? [] : concat(var.alerts.channels, [for c in google_monitoring_notification_channel.email : c.name])

  limits = { for name in ["server_error_ratio", "p99_milliseconds", "oldest_unacked_seconds", "rejections", "streak"] :
  name => try(var.alerts[name], 0) }

  # The collector's labels of this service.
  scraped = "cluster=\"__run__\",namespace=\"${var.name}\""

  run_filter    = "resource.type = \"cloud_run_revision\" AND resource.labels.service_name = \"${var.name}\""
  pubsub_filter = "resource.type = \"pubsub_subscription\" AND resource.labels.subscription_id = one_of(${join(", ", [for s in local.subscription_names : "\"${s}\""])})"

  platform_alerts = { for name, a in {
    server_errors = {
      title     = "answers 5xx"
      filter    = "${local.run_filter} AND metric.type = \"run.googleapis.com/request_count\" AND metric.labels.response_code_class = \"5xx\""
      of        = "${local.run_filter} AND metric.type = \"run.googleapis.com/request_count\""
      aligner   = "ALIGN_DELTA"
      reducer   = "REDUCE_SUM"
      group_by  = []
      threshold = local.limits.server_error_ratio
      duration  = "300s"
      says      = "More than ${local.limits.server_error_ratio} of the answers are 5xx. 503: the sink does not answer, or a route is stopped; GET /health/ready and the log name the cause. Pub/Sub delivers again: nothing is lost yet."
    }
    latency = {
      title     = "p99 of the answers"
      filter    = "${local.run_filter} AND metric.type = \"run.googleapis.com/request_latencies\""
      of        = null
      aligner   = "ALIGN_PERCENTILE_99"
      reducer   = "REDUCE_MAX"
      group_by  = []
      threshold = local.limits.p99_milliseconds
      duration  = "300s"
      says      = "One answer in a hundred takes longer than ${local.limits.p99_milliseconds} ms; at ${var.request_timeout_seconds} s (REQUEST_TIMEOUT) it is a 503. A slow sink, too few instances, or caps that are reached."
    }
    oldest_unacked = {
      title     = "oldest message without an acknowledgement"
      filter    = "${local.pubsub_filter} AND metric.type = \"pubsub.googleapis.com/subscription/oldest_unacked_message_age\""
      of        = null
      aligner   = "ALIGN_MAX"
      reducer   = "REDUCE_MAX"
      group_by  = ["resource.labels.subscription_id"]
      threshold = local.limits.oldest_unacked_seconds
      duration  = "0s"
      says      = "A message has waited for more than ${local.limits.oldest_unacked_seconds} s. It is lost after ${var.message_retention_seconds} s (message_retention_seconds). Or it is in a subscription for dead letters, where somebody has to look at it."
    }
    dead_letters = {
      title     = "messages given up by Pub/Sub"
      filter    = "${local.pubsub_filter} AND metric.type = \"pubsub.googleapis.com/subscription/dead_letter_message_count\""
      of        = null
      aligner   = "ALIGN_DELTA"
      reducer   = "REDUCE_SUM"
      group_by  = ["resource.labels.subscription_id"]
      threshold = 0
      duration  = "0s"
      says      = "Messages ran out of delivery attempts and are in ${var.name}-dead-letter."
    }
  } : name => a if var.alerts != null && (startswith(a.filter, local.run_filter) || length(local.subscription_names) > 0) }

  server_alerts = { for name, a in {
    rejections = {
      title = "rejected records"
      query = "sum by (route) (increase(pushsink_records_total{${local.scraped},result=~\"rejected|malformed|dropped|dead_lettered\"}[10m])) > ${local.limits.rejections}"
      says  = "Records of a route are refused for good. The log and the label code say why; onReject says where they went: fail = delivered again, drop = gone, deadLetter = in the route's topic."
    }
    streak = {
      title = "rejections in a row"
      query = "max by (route) (pushsink_writer_streak{${local.scraped}}) >= ${local.limits.streak} or sum by (route) (increase(pushsink_writer_trips_total{${local.scraped}}[5m])) > 0"
      says  = "A route had only rejections lately; at WRITER_MAX_CONSECUTIVE_REJECTIONS it stops (drop and deadLetter) and answers 503 until a write succeeds. Most often a mapping and a table that do not fit."
    }
    late = {
      title = "records older than their family keeps"
      query = "sum by (route) (increase(pushsink_records_late_total{${local.scraped}}[1h])) > 0"
      says  = "Records were written with cells older than the maxAge of their family: acknowledged, and then collected."
    }
  } : name => a if var.alerts != null && var.collector != null }
}

resource "google_monitoring_notification_channel" "email" {
  for_each = toset(try(var.alerts.emails, []))

  project      = var.project_id
  display_name = "${var.name}: ${each.value}"
  type         = "email"
  labels       = { email_address = each.value }
  depends_on   = [google_project_service.api]
}

resource "google_monitoring_alert_policy" "platform" {
  for_each = local.platform_alerts

  project               = var.project_id
  display_name          = "${var.name}: ${each.value.title}"
  combiner              = "OR"
  notification_channels = local.channels
  user_labels           = var.labels

  conditions {
    display_name = each.value.title
    condition_threshold {
      filter             = each.value.filter
      denominator_filter = each.value.of
      comparison         = "COMPARISON_GT"
      threshold_value    = each.value.threshold
      duration           = each.value.duration

      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = each.value.aligner
        cross_series_reducer = each.value.reducer
        group_by_fields      = each.value.group_by
      }
      dynamic "denominator_aggregations" {
        for_each = each.value.of == null ? [] : [1]
        content {
          alignment_period     = "300s"
          per_series_aligner   = each.value.aligner
          cross_series_reducer = each.value.reducer
          group_by_fields      = each.value.group_by
        }
      }
    }
  }

  documentation {
    content   = each.value.says
    mime_type = "text/markdown"
  }
  depends_on = [google_project_service.api]
}

resource "google_monitoring_alert_policy" "server" {
  for_each = local.server_alerts

  project               = var.project_id
  display_name          = "${var.name}: ${each.value.title}"
  combiner              = "OR"
  notification_channels = local.channels
  user_labels           = var.labels

  conditions {
    display_name = each.value.title
    condition_prometheus_query_language {
      query               = each.value.query
      duration            = "0s"
      evaluation_interval = "60s"
      # A metric is known once it was scraped, which is after the first apply.
      disable_metric_validation = true
    }
  }

  documentation {
    content   = each.value.says
    mime_type = "text/markdown"
  }
  depends_on = [google_project_service.api]
}
