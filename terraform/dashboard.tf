locals {
  platform_tiles = [for t in [
    { title = "Answers by class, 1/s", filter = "${local.run_filter} AND metric.type = \"run.googleapis.com/request_count\"", aligner = "ALIGN_RATE", reducer = "REDUCE_SUM", by = ["metric.labels.response_code_class"] },
    { title = "Latency p50, ms", filter = "${local.run_filter} AND metric.type = \"run.googleapis.com/request_latencies\"", aligner = "ALIGN_PERCENTILE_50", reducer = "REDUCE_MEAN", by = [] },
    { title = "Latency p99, ms", filter = "${local.run_filter} AND metric.type = \"run.googleapis.com/request_latencies\"", aligner = "ALIGN_PERCENTILE_99", reducer = "REDUCE_MAX", by = [] },
    { title = "Instances", filter = "${local.run_filter} AND metric.type = \"run.googleapis.com/container/instance_count\"", aligner = "ALIGN_MAX", reducer = "REDUCE_SUM", by = ["metric.labels.state"] },
    { title = "Memory, share of the limit", filter = "${local.run_filter} AND metric.type = \"run.googleapis.com/container/memory/utilizations\"", aligner = "ALIGN_PERCENTILE_99", reducer = "REDUCE_MAX", by = [] },
    { title = "Oldest unacknowledged message, s", filter = "${local.pubsub_filter} AND metric.type = \"pubsub.googleapis.com/subscription/oldest_unacked_message_age\"", aligner = "ALIGN_MAX", reducer = "REDUCE_MAX", by = ["resource.labels.subscription_id"] },
    { title = "Messages waiting", filter = "${local.pubsub_filter} AND metric.type = \"pubsub.googleapis.com/subscription/num_undelivered_messages\"", aligner = "ALIGN_MAX", reducer = "REDUCE_SUM", by = ["resource.labels.subscription_id"] },
    { title = "Pushes by answer, 1/s", filter = "${local.pubsub_filter} AND metric.type = \"pubsub.googleapis.com/subscription/push_request_count\"", aligner = "ALIGN_RATE", reducer = "REDUCE_SUM", by = ["metric.labels.response_class"] },
  ] : t if startswith(t.filter, local.run_filter) || length(local.subscription_names) > 0]

  server_tiles = [for t in [
    { title = "Records by result, 1/s", query = "sum by (route, result) (rate(pushsink_records_total{${local.scraped}}[1m]))" },
    { title = "Published to durable, p99, s", query = "histogram_quantile(0.99, sum by (le, route) (rate(pushsink_records_latency_seconds_bucket{${local.scraped}}[5m])))" },
    { title = "Rejections in a row", query = "max by (route) (pushsink_writer_streak{${local.scraped}})" },
    { title = "Bytes in flight", query = "max by (sink) (pushsink_writer_bytes_in_flight{${local.scraped}})" },
    { title = "Bodies held, bytes", query = "max(pushsink_http_body_held_bytes{${local.scraped}})" },
    { title = "Entries in a batch, mean", query = "sum by (sink) (rate(pushsink_writer_batch_entries_sum{${local.scraped}}[5m])) / sum by (sink) (rate(pushsink_writer_batch_entries_count{${local.scraped}}[5m]))" },
    { title = "Sink latency, p99, s", query = "histogram_quantile(0.99, sum by (le, sink) (rate(pushsink_writer_request_duration_seconds_bucket{${local.scraped}}[5m])))" },
    { title = "Late records, 1/s", query = "sum by (route) (rate(pushsink_records_late_total{${local.scraped}}[5m]))" },
  ] : t if var.collector != null]

  tiles = concat(
    [for t in local.platform_tiles : { title = t.title, query = {
      prometheusQuery = null
      timeSeriesFilter = {
        filter      = t.filter
        aggregation = { alignmentPeriod = "60s", perSeriesAligner = t.aligner, crossSeriesReducer = t.reducer, groupByFields = t.by }
      }
    } }],
    [for t in local.server_tiles : { title = t.title, query = { prometheusQuery = t.query, timeSeriesFilter = null } }],
  )
}

resource "google_monitoring_dashboard" "this" {
  count = var.dashboard ? 1 : 0

  project = var.project_id
  dashboard_json = jsonencode({
    displayName = var.name
    mosaicLayout = {
      columns = 48
      tiles = [for i, t in local.tiles : {
        xPos   = (i % 3) * 16
        yPos   = floor(i / 3) * 16
        width  = 16
        height = 16
        widget = {
          title = t.title
          xyChart = {
            dataSets = [{
              plotType        = "LINE"
              timeSeriesQuery = { for k, v in t.query : k => v if v != null }
            }]
          }
        }
      }]
    }
  })
  depends_on = [google_project_service.api]
}
