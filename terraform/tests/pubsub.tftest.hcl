# Topics, subscriptions and their roles.

mock_provider "google" {}

override_data {
  target = data.google_project.this
  values = { number = "123456789012" }
}

override_resource {
  target = google_service_account.push
  values = {
    email  = "pushsink-push@my-project.iam.gserviceaccount.com"
    member = "serviceAccount:pushsink-push@my-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.runtime
  values = {
    email  = "pushsink-runtime@my-project.iam.gserviceaccount.com"
    member = "serviceAccount:pushsink-runtime@my-project.iam.gserviceaccount.com"
  }
}

variables {
  project_id    = "my-project"
  region        = "europe-west1"
  image         = "europe-west1-docker.pkg.dev/my-project/images/pushsink:v1.2.3"
  routes_secret = { secret = "pushsink-routes", version = "3" }
  subscriptions = { telemetry = {} }
}

run "CFG_06_dead_letters_with_both_roles" {
  command = apply
  variables {
    subscriptions = { telemetry = {}, orders = { topic = "projects/other/topics/orders" } }
    dead_letter   = { max_delivery_attempts = 7 }
  }

  assert {
    condition     = alltrue([for s in values(google_pubsub_subscription.push) : s.dead_letter_policy[0].dead_letter_topic == google_pubsub_topic.dead_letter[0].id && s.dead_letter_policy[0].max_delivery_attempts == 7])
    error_message = "A subscription gives up elsewhere, or never."
  }
  assert {
    condition     = google_pubsub_topic_iam_member.dead_letter_publisher[0].role == "roles/pubsub.publisher" && google_pubsub_topic_iam_member.dead_letter_publisher[0].topic == google_pubsub_topic.dead_letter[0].name && google_pubsub_topic_iam_member.dead_letter_publisher[0].member == "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"
    error_message = "Pub/Sub may not publish dead letters."
  }
  assert {
    condition     = keys(google_pubsub_subscription_iam_member.dead_letter_subscriber) == keys(google_pubsub_subscription.push)
    error_message = "Pub/Sub may not acknowledge every subscription's dead letters."
  }
  assert {
    condition     = alltrue([for name, b in google_pubsub_subscription_iam_member.dead_letter_subscriber : b.role == "roles/pubsub.subscriber" && b.subscription == google_pubsub_subscription.push[name].name && b.member == "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"])
    error_message = "Pub/Sub may not acknowledge what it gave up."
  }
  assert {
    condition     = google_pubsub_subscription.dead_letter[0].topic == google_pubsub_topic.dead_letter[0].id && google_pubsub_subscription.dead_letter[0].expiration_policy[0].ttl == ""
    error_message = "Nothing keeps the dead letters."
  }
}

run "CFG_06_no_dead_letters_no_roles" {
  command = plan
  variables {
    dead_letter = null
  }

  assert {
    condition     = length(google_pubsub_topic.dead_letter) + length(google_pubsub_subscription.dead_letter) + length(google_pubsub_topic_iam_member.dead_letter_publisher) + length(google_pubsub_subscription_iam_member.dead_letter_subscriber) == 0
    error_message = "There is something for dead letters."
  }
  assert {
    condition     = length(google_pubsub_subscription.push["telemetry"].dead_letter_policy) == 0
    error_message = "There is a dead letter policy."
  }
}

run "subscription_as_it_is_by_default" {
  command = plan

  assert {
    condition     = google_pubsub_subscription.push["telemetry"].name == "pushsink-telemetry-push" && google_pubsub_topic.input["telemetry"].name == "pushsink-telemetry"
    error_message = "Other names."
  }
  assert {
    condition     = google_pubsub_subscription.push["telemetry"].expiration_policy[0].ttl == ""
    error_message = "It expires when nothing comes for a month."
  }
  assert {
    condition     = google_pubsub_subscription.push["telemetry"].retry_policy[0].minimum_backoff == "10s" && google_pubsub_subscription.push["telemetry"].retry_policy[0].maximum_backoff == "600s" && google_pubsub_subscription.push["telemetry"].message_retention_duration == "604800s"
    error_message = "Other backoffs, or another retention."
  }
  assert {
    condition     = length(google_pubsub_subscription.push["telemetry"].push_config[0].no_wrapper) == 0 && !google_pubsub_subscription.push["telemetry"].enable_message_ordering
    error_message = "Unwrapped, or ordered."
  }
  assert {
    condition     = length(google_pubsub_topic.rejected) + length(google_pubsub_subscription.rejected) + length(google_pubsub_topic_iam_member.rejected) == 0
    error_message = "A topic for rejected records that nobody asked for."
  }
}

run "subscription_as_asked_for" {
  command = apply
  variables {
    subscriptions             = { raw = { route = "Telemetry.v2", topic = "projects/other/topics/events", unwrapped = true, ordering = true, filter = "attributes.kind = \"reading\"" } }
    retry                     = { minimum_backoff_seconds = 0, maximum_backoff_seconds = 30 }
    message_retention_seconds = 2678400
  }

  assert {
    condition     = length(google_pubsub_topic.input) == 0 && google_pubsub_subscription.push["raw"].topic == "projects/other/topics/events" && endswith(google_pubsub_subscription.push["raw"].push_config[0].push_endpoint, "/v1/routes/Telemetry.v2/push")
    error_message = "Another topic, or another route."
  }
  assert {
    condition     = google_pubsub_subscription.push["raw"].push_config[0].no_wrapper[0].write_metadata
    error_message = "Without its metadata a message has no id."
  }
  assert {
    condition     = google_pubsub_subscription.push["raw"].enable_message_ordering && google_pubsub_subscription.push["raw"].filter == "attributes.kind = \"reading\"" && google_pubsub_subscription.push["raw"].retry_policy[0].minimum_backoff == "0s" && google_pubsub_subscription.push["raw"].message_retention_duration == "2678400s"
    error_message = "What was asked for is not there."
  }
}

run "rejected_records_have_a_topic" {
  command = apply
  variables {
    rejected_topic = true
  }

  assert {
    condition     = google_pubsub_topic_iam_member.rejected[0].role == "roles/pubsub.publisher" && google_pubsub_topic_iam_member.rejected[0].member == google_service_account.runtime.member && google_pubsub_topic_iam_member.rejected[0].topic == google_pubsub_topic.rejected[0].name
    error_message = "The server may not publish what it refuses."
  }
  assert {
    condition     = google_pubsub_subscription.rejected[0].topic == google_pubsub_topic.rejected[0].id && output.rejected_topic == google_pubsub_topic.rejected[0].id && output.rejected_subscription == google_pubsub_subscription.rejected[0].id
    error_message = "Nothing keeps what the server refuses."
  }
}
