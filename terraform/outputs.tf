output "service_name" {
  description = "Name of the Cloud Run service, for gcloud."
  value       = google_cloud_run_v2_service.server.name
}

output "service_url" {
  description = "URL of the service, which is also the audience of the tokens that it takes."
  value       = local.service_url
}

output "service_urls" {
  description = "What Cloud Run says after the apply. service_url has to be among them, or pushes go nowhere."
  value       = google_cloud_run_v2_service.server.urls
}

output "push_endpoints" {
  description = "Where each subscription pushes to."
  value       = { for name, s in google_pubsub_subscription.push : name => s.push_config[0].push_endpoint }
}

output "topics" {
  description = "Topic of each subscription."
  value       = { for name, s in local.subscriptions : name => s.topic }
}

output "rejected_topic" {
  description = "For deadLetterTopic in the routes file; null without rejected_topic."
  value       = one(google_pubsub_topic.rejected[*].id)
}

output "rejected_subscription" {
  description = "For server redrive -subscription: it keeps what routes with onReject: deadLetter refused; null without rejected_topic."
  value       = one(google_pubsub_subscription.rejected[*].id)
}

output "dead_letter_subscription" {
  description = "It keeps what Pub/Sub gave up; null without dead_letter or subscriptions."
  value       = one(google_pubsub_subscription.dead_letter[*].id)
}

output "runtime_service_account" {
  description = "Who the server is."
  value       = google_service_account.runtime.email
}

output "push_service_account" {
  description = "Who Pub/Sub is to the server."
  value       = google_service_account.push.email
}

output "repository" {
  description = "Where images are pushed; null without repository."
  value       = one([for r in google_artifact_registry_repository.images : "${r.location}-docker.pkg.dev/${r.project}/${r.repository_id}"])
}

output "metric_writer_grant" {
  description = "What the collector needs and this module does not grant; null without collector."
  value       = var.collector == null ? null : "gcloud projects add-iam-policy-binding ${var.project_id} --role=roles/monitoring.metricWriter --member=${google_service_account.runtime.member}"
}
